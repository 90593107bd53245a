"""What moto brings along of AWS's own, kept from one reset to the next: its policies and its machine images.

Of 1400 policies and 1300 images moto makes objects at every reset, for every region that was used, and throws
them away: 0.3 s in which the yard answers nobody. Here they are made once, and copied into what is used next.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from types import SimpleNamespace
from typing import Any


def keep() -> None:
    """Keep the state of the services that were used; the others are not even imported."""
    from moto.core.base_backend import BaseBackend

    BaseBackend.reset = lambda _: None  # who resets moto forgets all backends next: none need start again
    if "moto.iam.models" in sys.modules:
        _keep_policies()
    if "moto.ec2.models" in sys.modules:
        _keep_images()


@lru_cache(maxsize=1)
def _keep_policies() -> None:
    from moto.iam.models import IAMBackend

    original = IAMBackend._init_aws_policies

    @lru_cache(maxsize=8)
    def read(account: str, region: str) -> list[Any]:
        policies: list[Any] = original(SimpleNamespace(account_id=account, region_name=region))
        return policies

    IAMBackend._init_aws_policies = lambda self: [
        _again(one) for one in read(self.account_id, self.region_name)
    ]


@lru_cache(maxsize=1)
def _keep_images() -> None:
    from moto.ec2.models.amis import AmiBackend

    original, kept = AmiBackend._load_amis, {}

    def load(self: Any) -> None:
        place = (self.account_id, self.region_name)
        if place not in kept:
            original(self)
            kept[place] = [_image_of(None, image) for image in self.amis.values()]
            return
        for image in (_image_of(self, each) for each in kept[place]):
            self.amis[image.id] = image
            self.snapshots[image.ebs_snapshot.id] = image.ebs_snapshot

    AmiBackend._load_amis = load


def _image_of(backend: Any, image: Any) -> Any:
    snapshot = _again(
        image.ebs_snapshot,
        ec2_backend=backend,
        create_volume_permission_groups=set(),
        create_volume_permission_userids=set(),
    )
    return _again(
        image,
        ec2_backend=backend,
        ebs_snapshot=snapshot,
        launch_permissions=[*image.launch_permissions],
        product_codes={*image.product_codes},
    )


def _again(one: Any, **changes: object) -> Any:
    """Copy without moto's own __new__, which remembers every object that it ever made."""
    fresh = object.__new__(type(one))
    fresh.__dict__ = {**one.__dict__, **changes}
    return fresh
