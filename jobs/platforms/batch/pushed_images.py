"""Whether a job may run the image: it is of the account's own registry, and for the cluster's machines.

An image that is built for one platform does not say in its manifest for which; one for several does.
"""

from __future__ import annotations

import json

from slipway.jobs.cloud.aws import Unanswered, ask, reader
from slipway.jobs.words.catalogue.instances import instance_type
from slipway.jobs.words.job import DoesNotFit
from slipway.jobs.words.targets import BatchTarget

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
# As container images call what EC2 calls otherwise (GOARCH, OCI image specification).
_ARCHITECTURES = {"x86_64": "amd64"}


def refuse_foreign_registry(target: BatchTarget) -> None:
    """Refuse a container image of another account: it would run with the rights of the job."""
    own = f"{target.account}.dkr.ecr.{target.region}.amazonaws.com"
    host = target.repository_uri.partition("/")[0]
    if host not in (own, f"{own}.cn"):
        raise DoesNotFit(
            f"cluster '{target.name}' runs container images of {host}; only the account's own registry "
            f"is allowed, {own}",
            hint="copy the image there and deploy the cluster again",
        )


def refuse_other_platform(target: BatchTarget, repository: str, digest: str, words: str) -> None:
    """Refuse a container image for other processors; if ECR does not answer, let the node decide.

    `words` name the image as a person says it.
    """
    answer = ask(
        reader("ecr", target.region),
        "BatchGetImage",
        registryId=target.account,
        repositoryName=repository,
        imageIds=[{"imageDigest": digest}],
        acceptedMediaTypes=_INDEXES,
    )
    if isinstance(answer, Unanswered) or not answer.get("images"):
        return
    needed = instance_type(target.instance_type).architecture
    needed = _ARCHITECTURES.get(needed, needed)
    there = _architectures(answer["images"][0]["imageManifest"])
    if there and needed not in there:
        raise DoesNotFit(
            f"image {words} is for {', '.join(sorted(there))}, and {target.instance_type} is {needed}",
            hint="build it for these machines: slipway build does so on machines of their kind",
        )


def _architectures(manifest: str) -> set[str]:
    """Return the architectures of a multi-platform image; none for an image of one platform."""
    listed = json.loads(manifest).get("manifests") or ()
    found = {str((each.get("platform") or {}).get("architecture")) for each in listed}
    return found - {"unknown", "None"}  # attestations that BuildKit adds are for no platform
