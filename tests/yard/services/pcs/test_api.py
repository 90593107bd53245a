"""The yard's PCS works through boto3 from creation to deletion, and writes the right slurm.conf."""

from __future__ import annotations

import base64
import email
from datetime import date
from functools import partial
from typing import Any

import pytest

from slipway.yard.services.pcs import accounts, checks, nodes, slurm_conf
from slipway.yard.services.pcs.slurm_conf import NodeRange, Partition, SlurmSettings
from slipway.yard.services.recorded import StoredRecord
from tests.yard.asking import refusal
from tests.yard.conftest import RunningYard
from tests.yard.services.pcs.pcs_site import MIME, SCRIPT, PcsSite


@pytest.fixture
def site(yard: RunningYard) -> PcsSite:
    return PcsSite(yard)


@pytest.fixture
def pcs(site: PcsSite) -> Any:
    return site.pcs


def test_what_was_created_is_found_by_name_and_by_id_as_it_was_given(site: PcsSite, pcs: Any) -> None:
    made = site.cluster(tags={"a": "b"}, slurmConfiguration={"scaleDownIdleTimeInSeconds": 600})
    assert made["status"] == "CREATING"
    by_name = pcs.get_cluster(clusterIdentifier="trn")["cluster"]
    assert by_name == pcs.get_cluster(clusterIdentifier=made["id"])["cluster"]
    assert by_name["status"] == "ACTIVE"
    assert by_name["arn"] == f"arn:aws:pcs:us-east-1:123456789012:cluster/{made['id']}"
    assert by_name["networking"]["subnetIds"] == [site.subnet]
    assert by_name["slurmConfiguration"]["scaleDownIdleTimeInSeconds"] == 600
    assert by_name["slurmConfiguration"]["authKey"]["secretArn"].startswith("arn:aws:secretsmanager:")
    assert by_name["endpoints"][0]["type"] == "SLURMCTLD"
    pcs.tag_resource(resourceArn=made["arn"], tags={"c": "d"})
    assert pcs.list_tags_for_resource(resourceArn=made["arn"])["tags"] == {"a": "b", "c": "d"}
    pcs.untag_resource(resourceArn=made["arn"], tagKeys=["a"])
    assert pcs.list_tags_for_resource(resourceArn=made["arn"])["tags"] == {"c": "d"}


def test_a_cluster_that_keeps_accounts_says_where_one_that_does_not_begins_to_and_none_ends(
    site: PcsSite, pcs: Any
) -> None:
    keeps = {"accounting": {"mode": "STANDARD", "defaultPurgeTimeInDays": 90}}

    def answers(name: str) -> list[str]:
        found = pcs.get_cluster(clusterIdentifier=name)["cluster"]["endpoints"]
        return [f"{each['type']} {each['port']}" for each in found]

    both = ["SLURMCTLD 6817", "SLURMDBD 6819"]
    site.cluster("one", slurmConfiguration=keeps)
    assert answers("one") == both
    site.cluster("two")
    assert answers("two") == both[:1]
    pcs.update_cluster(clusterIdentifier="two", slurmConfiguration=keeps)
    assert answers("two") == both

    def changed(**accounting: Any) -> Any:
        return pcs.update_cluster(clusterIdentifier="one", slurmConfiguration={"accounting": accounting})

    changed(defaultPurgeTimeInDays=30)
    kept = pcs.get_cluster(clusterIdentifier="one")["cluster"]["slurmConfiguration"]["accounting"]
    assert kept == {"mode": "STANDARD", "defaultPurgeTimeInDays": 30}
    refused = refusal(changed, mode="NONE")
    assert (refused["Code"], "can't be disabled" in refused["Message"]) == ("ValidationException", True)


def test_groups_and_queues_belong_to_their_cluster(site: PcsSite, pcs: Any) -> None:
    site.cluster("one")
    two = site.cluster("two")
    group = site.node_group("two")
    queue = site.queue(two["id"], group["id"])
    assert (group["clusterId"], queue["clusterId"]) == (two["id"], two["id"])
    assert group["arn"] == f"{two['arn']}/computenodegroup/{group['id']}"
    assert queue["arn"] == f"{two['arn']}/queue/{queue['id']}"
    assert pcs.list_queues(clusterIdentifier="one")["queues"] == []
    found = pcs.get_compute_node_group(clusterIdentifier="two", computeNodeGroupIdentifier="workers")
    assert found["computeNodeGroup"]["instanceConfigs"] == [{"instanceType": "trn1.32xlarge"}]
    refused = refusal(pcs.get_queue, clusterIdentifier="one", queueIdentifier=queue["id"])
    assert (refused["Code"], refused["status"]) == ("ResourceNotFoundException", 404)
    refused = refusal(lambda: site.queue("one", "pcs_none"))
    assert (refused["Code"], "pcs_none" in refused["Message"]) == ("ResourceNotFoundException", True)
    register = pcs.register_compute_node_group_instance
    refused = refusal(register, clusterIdentifier="two", bootstrapId="i-0123")
    assert (refused["Code"], "i-0123 is no instance" in refused["Message"]) == ("AccessDeniedException", True)
    pages = list(pcs.get_paginator("list_clusters").paginate(PaginationConfig={"PageSize": 1}))
    assert sorted(cluster["name"] for page in pages for cluster in page["clusters"]) == ["one", "two"]
    assert [len(page["clusters"]) for page in pages] == [1, 1]


def test_an_update_changes_what_it_names_and_nothing_else_and_is_checked_like_a_creation(
    site: PcsSite, pcs: Any
) -> None:
    cluster = site.cluster()
    group = site.node_group(cluster["id"])
    which = {"clusterIdentifier": cluster["id"], "computeNodeGroupIdentifier": group["id"]}
    more = {"minInstanceCount": 1, "maxInstanceCount": 8}
    updated = pcs.update_compute_node_group(**which, scalingConfiguration=more)["computeNodeGroup"]
    assert updated["status"] == "UPDATING"
    found = pcs.get_compute_node_group(**which)["computeNodeGroup"]
    assert found["scalingConfiguration"] == more
    assert found["customLaunchTemplate"] == {"id": site.template, "version": "1"}
    assert found["modifiedAt"] >= found["createdAt"]
    most = {"minInstanceCount": 0, "maxInstanceCount": 33}
    refused = refusal(pcs.update_compute_node_group, **which, scalingConfiguration=most)
    assert refused["Code"] == "ServiceQuotaExceededException"


def test_a_second_of_the_same_name_is_refused_and_a_repeated_request_is_not(site: PcsSite, pcs: Any) -> None:
    first = site.cluster(clientToken="once-1234")
    assert site.cluster(clientToken="once-1234")["id"] == first["id"]
    refused = refusal(site.cluster)
    assert (refused["Code"], refused["status"]) == ("ConflictException", 409)
    assert len(pcs.list_clusters()["clusters"]) == 1


def test_what_is_used_is_not_deleted(site: PcsSite, pcs: Any) -> None:
    cluster = site.cluster()["id"]
    group = site.node_group(cluster)["id"]
    site.queue(cluster, group)
    which = {"clusterIdentifier": cluster}
    assert refusal(pcs.delete_cluster, **which)["Code"] == "ConflictException"
    used = refusal(pcs.delete_compute_node_group, **which, computeNodeGroupIdentifier=group)
    assert "used by train" in used["Message"]
    pcs.delete_queue(**which, queueIdentifier="train")
    pcs.delete_compute_node_group(**which, computeNodeGroupIdentifier=group)
    pcs.delete_cluster(**which)
    assert pcs.list_clusters()["clusters"] == []
    assert refusal(pcs.delete_cluster, **which)["Code"] == "ResourceNotFoundException"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"scheduler": {"type": "SLURM", "version": "23.11"}}, "Supported versions are 24.11, 2"),
        (
            {"networking": {"subnetIds": ["subnet-0123456789abcdef0"]}},
            "subnet-0123456789abcdef0 does not exist",
        ),
        (
            {
                "slurmConfiguration": {
                    "slurmCustomSettings": [{"parameterName": "ResumeProgram", "parameterValue": "a"}]
                }
            },
            "ResumeProgram cannot be customized",
        ),
    ],
)
def test_a_cluster_that_pcs_would_not_make_is_refused(site: PcsSite, changed: Any, said: str) -> None:
    refused = refusal(lambda: site.cluster(**changed))
    assert (refused["Code"], said in refused["Message"]) == ("ValidationException", True), refused


def scaling(least: int, most: int) -> dict[str, Any]:
    return {"scalingConfiguration": {"minInstanceCount": least, "maxInstanceCount": most}}


def gres(*records: dict[str, str], setting: str = "") -> dict[str, Any]:
    """Return a node group's resources as AWS PCS user guide, "Configuring custom GRES settings", has them."""
    settings = [{"parameterName": "Gres", "parameterValue": setting}] if setting else []
    return {"slurmConfiguration": {"gresCustomSettings": list(records), "slurmCustomSettings": settings}}


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        (scaling(3, 2), "ValidationException", "minInstanceCount 3 is more than maxInstanceCount 2"),
        (scaling(0, 33), "ServiceQuotaExceededException", "A SMALL cluster has at most 32 nodes, and not 33"),
        (
            {"instanceConfigs": [{"instanceType": "trn9.large"}]},
            "ValidationException",
            "trn9.large does not exist",
        ),
        (
            {"instanceConfigs": [{"instanceType": "c6i.large"}, {"instanceType": "c6i.xlarge"}]},
            "ValidationException",
            "different numbers of vCPUs",
        ),
        ({"subnetIds": []}, "ValidationException", "needs a subnet"),
        (gres({"Name": "gpu", "Count": "8"}), "ValidationException", "A GPU record needs File"),
        (gres({"Name": "fpga"}, setting="fpga:2"), "ValidationException", "fpga:2 is more than"),
        (gres(setting="gpu:8"), "ValidationException", "names gpu, which no record"),
        (gres({"Count": "8"}), "ValidationException", "needs a Name or an active AutoDetect"),
        (gres({"Name": "fpga", "Speed": "1"}), "ValidationException", "attribute Speed is not supported"),
        ({"purchaseOption": "CAPACITY_BLOCK"}, "ValidationException", "MarketType is capacity-block"),
    ],
)
def test_a_node_group_that_pcs_would_not_make_is_refused(
    site: PcsSite, changed: Any, code: str, said: str
) -> None:
    cluster = site.cluster()["id"]
    refused = refusal(lambda: site.node_group(cluster, **changed))
    assert (refused["Code"], said in refused["Message"]) == (code, True), refused


def test_gpus_are_found_by_slurm_itself_since_2511(site: PcsSite) -> None:
    older = site.cluster(scheduler={"type": "SLURM", "version": "24.11"})["id"]
    refused = refusal(lambda: site.node_group(older, **gres({"AutoDetect": "nvml"})))
    assert "AutoDetect needs Slurm 25.11 or later, and this is 24.11" in refused["Message"]


def test_no_new_cluster_is_made_with_a_slurm_that_has_ended() -> None:
    assert "25.05" in checks.supported(date(2026, 11, 30))
    assert "25.05" not in checks.supported(date(2026, 12, 1))
    assert "25.11" in checks.supported(date(2026, 12, 1))


def test_a_launch_template_of_another_version_or_without_mime_or_another_role_is_refused(
    site: PcsSite,
) -> None:
    cluster = site.cluster()["id"]
    missing = {"id": site.template, "version": "2"}
    refused = refusal(lambda: site.node_group(cluster, customLaunchTemplate=missing))
    assert f"Version 2 of the launch template {site.template}" in refused["Message"]
    plain = {"id": site.launch_template("plain", "#!/bin/bash\n"), "version": "1"}
    refused = refusal(lambda: site.node_group(cluster, customLaunchTemplate=plain))
    assert "not in the MIME multi-part format" in refused["Message"]
    other = site.instance_profile("nodes")
    refused = refusal(lambda: site.node_group(cluster, iamInstanceProfileArn=other))
    assert "the role nodes must start with AWSPCS" in refused["Message"]


def test_a_cluster_has_ten_node_groups_and_ten_queues_at_most(site: PcsSite) -> None:
    cluster = site.cluster()["id"]
    groups = [site.node_group(cluster, f"group-{number}", **scaling(0, 1)) for number in range(10)]
    refused = refusal(lambda: site.node_group(cluster, "group-10", **scaling(0, 1)))
    assert refused["Code"] == "ServiceQuotaExceededException"
    for number in range(10):
        site.queue(cluster, groups[0]["id"], f"queue-{number}")
    refused = refusal(lambda: site.queue(cluster, groups[0]["id"], "queue-10"))
    assert refused["Code"] == "ServiceQuotaExceededException"


def test_templates_find_the_newest_sample_ami_of_a_version_by_its_name(yard: RunningYard) -> None:
    named = {"Name": "name", "Values": ["aws-pcs-sample_ami-al2023-x86_64-slurm-25.11*"]}
    amazons = {"Name": "owner-alias", "Values": ["amazon"]}
    (image,) = yard.client("ec2").describe_images(Filters=[named, amazons])["Images"]
    assert (image["Architecture"], image["State"], image["Public"]) == ("x86_64", "available", True)


# A PCS cluster in Slurm's own files, and the data with which an instance joins it.
WORKERS = NodeRange(
    name="workers",
    smallest=1,
    largest=4,
    vcpus=128,
    memory_mib=498073,
    settings={"Gres": "neuron:16"},
    gres=({"Name": "neuron", "File": "/dev/neuron[0-15]"},),
)
TRAIN = Partition(name="train", groups=(WORKERS,), settings={"Default": "YES", "MaxTime": "60"})


def lines(**settings: str) -> dict[str, str]:
    cluster = SlurmSettings(
        name="trn", address="10.0.0.4", groups=(WORKERS,), partitions=(TRAIN,), settings=settings
    )
    found = slurm_conf.slurm_conf(cluster).splitlines()
    return {line.partition("=")[0]: line.partition("=")[2] for line in found}


def test_nodes_are_clouds_with_the_processors_and_devices_of_their_instance_type() -> None:
    node = lines()["NodeName"]
    assert node == "workers-[1-4] CPUs=128 RealMemory=498073 Gres=neuron:16 State=CLOUD"
    assert lines()["GresTypes"] == "neuron"
    assert lines()["SuspendExcNodes"] == "workers-1"
    assert slurm_conf.gres_conf([WORKERS]) == "NodeName=workers-[1-4] Name=neuron Count=16\n"
    assert lines()["PartitionName"] == "train Nodes=workers-[1-4] MaxTime=60 State=UP Default=YES"
    queueless = slurm_conf.slurm_conf(SlurmSettings(name="trn", address="10.0.0.4", groups=(WORKERS,)))
    assert "PartitionName=no-queue-yet Hidden=YES State=INACTIVE" in queueless


def test_accounts_are_kept_where_the_cluster_asks_and_as_long_as_it_says() -> None:
    assert "AccountingStorageType" not in lines()
    cluster = SlurmSettings(name="trn", address="10.0.0.4", groups=(WORKERS,), purge_days=90)
    assert "AccountingStorageHost=10.0.0.4" in slurm_conf.slurm_conf(cluster).splitlines()
    written = partial(accounts.slurmdbd_conf, folder="/f", user="root", port=6819, auth="")
    assert "PurgeJobAfter=90days" in written(90).splitlines()
    assert "Purge" not in written(-1)


def test_a_setting_that_debians_slurm_has_not_is_left_out_and_named() -> None:
    own = {"Prolog": "/opt/prolog.sh", "HashPlugin": "hash/sha3"}
    found = lines(**own)
    assert (found["Prolog"], "HashPlugin" in found) == ("/opt/prolog.sh", False)
    assert slurm_conf.left_out(own) == ["HashPlugin"]


def test_an_instance_registers_before_the_scripts_of_user_data_and_starts_slurmd_after_them() -> None:
    encoded = base64.b64encode(MIME.format(SCRIPT).encode()).decode()
    text = base64.b64decode(nodes.merged(encoded, "pcs_1234567890", "us-east-1")).decode()
    parts = [part for part in email.message_from_string(text).walk() if not part.is_multipart()]
    scripts = [str(part.get_payload(decode=True)) for part in parts]
    assert [
        next(word for word in ("register pcs_1234567890", "of user data", "agent start") if word in script)
        for script in scripts
    ] == ["register pcs_1234567890", "of user data", "agent start"]
    assert nodes.is_mime("")
    assert not nodes.is_mime(base64.b64encode(b"#!/bin/bash\n").decode())


GPUS = {
    "gresCustomSettings": [{"Name": "gpu", "Type": "h100", "File": "/dev/nvidia[0-3]"}],
    "slurmCustomSettings": [{"parameterName": "Gres", "parameterValue": "gpu:h100:4"}],
}


@pytest.mark.parametrize(
    ("instance_type", "given", "setting", "conf"),
    [
        ("p5.48xlarge", {}, "gpu:8", "Name=gpu File=/dev/null\n" * 8),
        ("p5.48xlarge", GPUS, "gpu:h100:4", "Name=gpu Type=h100 File=/dev/null\n" * 4),
        ("trn1.32xlarge", {}, None, ""),
    ],
)
def test_pcs_makes_the_record_of_gpus_itself_unless_one_is_given(
    instance_type: str, given: dict[str, Any], setting: str | None, conf: str
) -> None:
    """AWS PCS user guide, "Configuring custom GRES settings in AWS PCS": for NVIDIA's devices only."""
    record = StoredRecord(
        kind="ComputeNodeGroup",
        name="w",
        arn="arn",
        region="us-east-1",
        given={
            "instanceConfigs": [{"instanceType": instance_type}],
            "scalingConfiguration": {"minInstanceCount": 0, "maxInstanceCount": 2},
            "slurmConfiguration": given,
        },
        facts={},
        tags={},
    )
    found = slurm_conf.node_group(record)
    assert found.settings.get("Gres") == setting
    lines = slurm_conf.gres_conf([found]).splitlines(keepends=True)
    assert len(set(lines)) == len(lines), "slurmd refuses two of one file"
    assert "".join(lines).replace("NodeName=w-[1-2] ", "").replace("./", "") == conf
