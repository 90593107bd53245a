"""Exports connect stacks: one name has one value, and cannot be removed while another stack uses it."""

from __future__ import annotations

import threading

from tests.yard.cloudformation.conftest import Cfn, exporting, importing, text, topic


def test_a_stack_reads_what_another_exports(cfn: Cfn) -> None:
    cfn.create("net", exporting({"Ref": "T"}))
    assert cfn.create("app", importing()) == "CREATE_COMPLETE"
    assert cfn.cloud.live["topic-2"].properties == {"DisplayName": "topic-1"}
    (export,) = cfn("ListExports")["Exports"]
    assert (export["Name"], export["Value"]) == ("shared", "topic-1")
    assert cfn("ListImports", ExportName="shared")["Imports"] == ["app"]


def test_an_export_that_is_missing_stops_a_stack_before_it_begins(cfn: Cfn) -> None:
    refused = cfn.refusal("CreateStack", StackName="app", TemplateBody=text(importing()))
    assert refused == "ValidationError: No export named shared found"


def test_an_export_in_use_cannot_be_deleted(cfn: Cfn) -> None:
    cfn.create("net", exporting("v"))
    cfn.create("app", importing())
    assert cfn.delete("net") == "CREATE_COMPLETE"
    assert cfn.reason("net") == "Delete canceled. Cannot delete export shared as it is in use by app"
    assert cfn.update("net", {"T": topic("x")}) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Export shared cannot be deleted as it is in use by app" in cfn.reasons("net")
    assert cfn.delete("app") == "DELETE_COMPLETE"
    assert cfn.delete("net") == "DELETE_COMPLETE"


def test_an_export_in_use_keeps_its_value(cfn: Cfn) -> None:
    cfn.create("net", exporting("v"))
    cfn.create("app", importing())
    assert cfn.update("net", exporting("w")) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Export shared cannot be updated as it is in use by app" in cfn.reasons("net")
    assert cfn.outputs("net") == {"O": "v"}
    cfn.update("app", {"T": topic()})
    assert cfn.update("net", exporting("w")) == "UPDATE_COMPLETE"


def test_an_export_name_is_taken_once(cfn: Cfn) -> None:
    cfn.create("net", exporting("v"))
    assert cfn.create("other", exporting("w")) == "ROLLBACK_COMPLETE"
    assert "Export with name shared is already exported by stack net" in cfn.reasons("other")


def test_a_failed_update_still_holds_what_it_imported_before(cfn: Cfn) -> None:
    cfn.create("net", exporting("v"))
    cfn.create("app", importing())
    cfn.cloud.fail("create", "New")
    assert cfn.update("app", {"T": topic("own"), "New": topic({"Ref": "T"})}) == "UPDATE_ROLLBACK_COMPLETE"
    assert cfn("ListImports", ExportName="shared")["Imports"] == ["app"]


def test_what_a_running_update_imported_before_is_held_until_it_has_succeeded(cfn: Cfn) -> None:
    """It may have to go back."""
    cfn.create("net", exporting("v"))
    cfn.create("app", importing())
    cfn.cloud.gate = threading.Event()
    cfn("UpdateStack", StackName="app", TemplateBody=text({"T": topic("own"), "New": topic()}))
    assert cfn("ListImports", ExportName="shared")["Imports"] == ["app"]
    cfn.cloud.gate.set()
    assert cfn.settled("app") == "UPDATE_COMPLETE"
    assert "is not imported by any stack" in cfn.refusal("ListImports", ExportName="shared")
