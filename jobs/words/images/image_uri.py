"""The URI of a container image that somebody names for a job, and whether a cluster may pull it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slipway.jobs.words.job import DoesNotFit
from slipway.jobs.words.targets import Target
from slipway.jobs.words.text import printable

_REPOSITORY = r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
_TAG, _DIGEST = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", r"sha256:[0-9a-f]{64}"
_URI = re.compile(
    rf"(?P<registry>[a-z0-9.-]+)/(?P<repository>{_REPOSITORY})(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUri:
    """Hold the pieces of REGISTRY/REPOSITORY:TAG, or of one with @sha256:… behind it."""

    registry: str
    repository: str
    tag: str | None
    digest: str | None

    def pinned(self, digest: str) -> str:
        """Return the URI that never means another image."""
        return f"{self.registry}/{self.repository}@{digest}"


def is_image_uri(text: str) -> bool:
    """Return True for a URI that says which image of a repository it means."""
    found = _URI.fullmatch(text)
    return found is not None and bool(found["tag"] or found["digest"])


def read_image(uri: str, target: Target) -> ImageUri:
    """Read a URI; refuse one that the roles of the cluster cannot pull."""
    found = _URI.fullmatch(uri)
    own = own_registry(target)
    if found is None or not is_image_uri(uri):
        raise DoesNotFit(
            f"--image {printable(uri)} is no image; one is {own}/REPOSITORY:TAG, or the name of a folder of "
            "your project's images/",
            hint="slipway build NAME --on CLUSTER pushes one",
        )
    image = ImageUri(**found.groupdict())
    if image.registry not in (own, f"{own}.cn") and not _is_the_clusters(image, target):
        raise DoesNotFit(
            f"--image {uri} is of {image.registry}, and the nodes of '{target.name}' may pull from "
            f"{own} alone",
            hint="copy it there, or begin a Dockerfile with it: images/NAME/Dockerfile, slipway build NAME",
        )
    return image


def own_registry(target: Target) -> str:
    return f"{target.account}.dkr.ecr.{target.region}.amazonaws.com"


def _is_the_clusters(image: ImageUri, target: Target) -> bool:
    """Return True for another tag of the image that the cluster was declared with: its role may pull it."""
    declared = str(getattr(target, "image", ""))
    return declared.startswith(f"{image.registry}/{image.repository}:")
