"""BI-152: a job runs an image of the account's own registry that is built for the cluster's machines."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slipway.jobs.submit.preparing import prepare
from slipway.jobs.words.job import DoesNotFit, Job
from slipway.jobs.words.targets import BatchTarget, encode_target, parameter_name
from tests.yard.conftest import RunningYard

JOB = Job(name="bert", recipe="bert_pretrain", nodes=2)
INDEX = "application/vnd.oci.image.index.v1+json"
IMAGE = "application/vnd.oci.image.manifest.v1+json"


def push(yard: RunningYard, target: BatchTarget, media_type: str, **manifest: object) -> None:
    text = json.dumps({"schemaVersion": 2, "mediaType": media_type, **manifest})
    yard.client("ecr").put_image(
        repositoryName="dl1",
        imageManifest=text,
        imageManifestMediaType=media_type,
        imageTag=target.image_tag,
        imageDigest="sha256:" + "0" * 64,
    )


def push_index(yard: RunningYard, target: BatchTarget, *architectures: str) -> None:
    manifests = [
        {
            "mediaType": IMAGE,
            "digest": "sha256:" + f"{number}" * 64,
            "size": 1,
            "platform": {"os": "linux", "architecture": each},
        }
        for number, each in enumerate(architectures)
    ]
    push(yard, target, INDEX, manifests=manifests)


@pytest.mark.parametrize(
    "registry",
    [
        "docker.io/library",
        "999999999999.dkr.ecr.us-east-1.amazonaws.com",
        "123456789012.dkr.ecr.eu-west-1.amazonaws.com",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com.evil.example",
    ],
)
def test_an_image_from_elsewhere_is_refused(
    yard_shell: RunningYard, target: BatchTarget, registry: str
) -> None:
    foreign = replace(target, repository_uri=f"{registry}/dl1")
    yard_shell.client("ssm").put_parameter(
        Name=parameter_name("dl1"), Value=encode_target(foreign), Type="String", Overwrite=True
    )
    with pytest.raises(DoesNotFit, match="only the account's own registry and AWS's are allowed"):
        prepare(JOB, "dl1")


@pytest.mark.parametrize(
    ("architectures", "is_taken"),
    [(("arm64", "unknown"), False), (("arm64", "amd64", "unknown"), True), ((), True)],
    ids=["for other machines", "for these, too", "it does not say for which"],
)
def test_an_image_is_taken_unless_it_is_for_other_machines(
    yard_shell: RunningYard, target: BatchTarget, architectures: tuple[str, ...], is_taken: bool
) -> None:
    if architectures:
        push_index(yard_shell, target, *architectures)
    else:
        push(yard_shell, target, IMAGE, config={"digest": "sha256:" + "1" * 64}, layers=[])
    if is_taken:
        assert prepare(JOB, "dl1").image_digest
        return
    with pytest.raises(DoesNotFit, match=r"gaudi:.* is for arm64, and dl1\.24xlarge is amd64"):
        prepare(JOB, "dl1")
