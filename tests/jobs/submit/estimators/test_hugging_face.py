"""`hugging_face` decides as `submit` does, and says in one line what keeps it from it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from slipway import Job, prepare
from slipway.estimators import Script, SmpV2, hugging_face
from slipway.jobs.platforms.sagemaker.request import SageMakerRequest
from slipway.jobs.submit.estimators import sdk as sdk_module
from slipway.jobs.submit.estimators.hugging_face import NotSageMaker
from slipway.jobs.submit.estimators.sdk import NoSdk, installed_major
from slipway.jobs.submit.estimators.training import InvalidScript, of_script
from slipway.jobs.words.targets import BatchTarget
from tests.jobs.deployed import deploy_sagemaker_target
from tests.jobs.submit.estimators.sending import caught, differences
from tests.jobs.words.test_targets import SAGEMAKER_TARGET
from tests.yard.conftest import RunningYard

JOB = Job(name="try", recipe="smoke", nodes=2)


@pytest.mark.filterwarnings("ignore")  # the SDK's own
def test_an_estimator_sends_what_submit_would_and_its_code_is_there(yard_shell: RunningYard) -> None:
    pytest.importorskip("sagemaker", reason="needs SageMaker's SDK: scripts/set_up.py sagemaker")
    target = deploy_sagemaker_target(yard_shell)
    request = prepare(JOB, on=target.name).request
    assert isinstance(request, SageMakerRequest)
    estimator = hugging_face(JOB, on=target.name, say=lambda _: None)
    sent = caught(lambda: estimator.fit(wait=False))
    assert [where for where, (ours, _) in differences(dict(request.create), sent).items() if ours] == []
    kept = yard_shell.client("s3").list_objects_v2(Bucket=target.bucket)["Contents"]
    keys = {each["Key"] for each in kept}
    assert keys == {f"code/{request.digest}.tar.gz", f"jobs/{request.name}/request.json"}


def test_without_an_sdk_both_pip_lines_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(sdk_module, "version", absent)
    with pytest.raises(NoSdk) as refused:
        hugging_face(JOB, on="gptj")
    assert refused.value.message == "no SDK of SageMaker is installed"
    for line in ("pip install 'sagemaker>=2.257,<3'", "pip install 'sagemaker>=3.27,<4'"):
        assert line in refused.value.hint


@pytest.mark.parametrize("found", ["1.72.0", "4.0.0", "unknown"])
def test_an_sdk_that_we_do_not_know_is_refused_by_its_version(
    found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk_module, "version", lambda _: found)
    with pytest.raises(NoSdk, match=f"SDK {found} is installed, which Slipway does not know"):
        installed_major()


def test_a_cluster_of_another_kind_has_no_estimators(
    target: BatchTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk_module, "version", lambda _: "2.257.7")
    with pytest.raises(NotSageMaker, match=r"target 'dl1' is of kind batch"):
        hugging_face(JOB, on=target.name)


def test_all_that_is_wrong_with_a_script_is_told_at_once() -> None:
    with pytest.raises(InvalidScript) as refused:
        Script(
            name="my_script",
            entry_point="train.py",
            source_dir="src",
            nodes=0,
            channels={"train": "/data"},
            smp=SmpV2(),
        )
    assert [problem.where for problem in refused.value.problems] == [
        "name",
        "nodes",
        "channels['train']",
        "image",
    ]


def test_a_script_gets_no_more_instances_than_its_cluster_has() -> None:
    script = Script(name="big", entry_point="train.py", source_dir="src", nodes=3)
    with pytest.raises(InvalidScript, match="nodes: is 3, and cluster 'gptj' has 2; set at most 2"):
        of_script(script, SAGEMAKER_TARGET)
