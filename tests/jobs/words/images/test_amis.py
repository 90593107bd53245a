"""jobs read what infra writes about a bakery, and what the tags of an AMI say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slipway.jobs.words.images.amis import (
    AmiManifest,
    Bakery,
    DamagedRecord,
    ami_parameter,
    ami_tags,
    bakery_parameter,
    decode_bakery,
    encode_bakery,
    encode_manifest,
    image_of,
    manifest_of,
)
from slipway.jobs.words.images.containers import Lock, mismatches

BAKERY = Bakery(
    name="cpu-mpi",
    account="123456789012",
    region="us-east-1",
    pipeline_arn="arn:aws:imagebuilder:us-east-1:123456789012:image-pipeline/slipway-cpu-mpi",
    ami_parameter=ami_parameter("cpu-mpi"),
    manifest_parameter="/slipway/amis/cpu-mpi/manifest",
    lock_digest="0123456789abcdef",
    recipe_version="1.0.7",
    log_group="/aws/imagebuilder/slipway-cpu-mpi",
    parent="ami-0123456789abcdef0",
    snapshot="20261120T000000Z",
)
MANIFEST = AmiManifest(
    image="cpu-mpi",
    ami_id="ami-0fedcba9876543210",
    lock_digest="0123456789abcdef",
    recipe_version="1.0.7",
    baked_at="2026-11-21T10:00:00.000Z",
    versions={"pytorch": "2.13.0", "efa": "1.43.2"},
)
WHERE = bakery_parameter("cpu-mpi")


def test_a_bakery_is_read_as_it_was_written_and_its_records_stand_where_clusters_look() -> None:
    assert decode_bakery(encode_bakery(BAKERY), parameter=WHERE) == BAKERY
    assert WHERE == "/slipway/bakeries/cpu-mpi"
    assert ami_parameter("cpu-mpi") == "/slipway/amis/cpu-mpi/id"
    assert image_of(ami_parameter("cpu-mpi")) == "cpu-mpi"
    others = ["/slipway/amis/cpu-mpi/manifest", "/a/slipway/amis/b/id", "/our/ami", "ami-1"]
    assert [image_of(other) for other in others] == [None] * 4
    for text in ("{", "[]", "null"):
        with pytest.raises(DamagedRecord, match=WHERE):
            decode_bakery(text, parameter=WHERE)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema": 0}, "has schema 0, but this Slipway reads 1"),
        ({"region": 7}, "has region = 7, not a text"),
        ({"more": "1"}, "has the unknown field more"),
    ],
)
def test_a_damaged_bakery_is_refused_by_field(changes: dict[str, object], said: str) -> None:
    text = json.dumps({**json.loads(encode_bakery(BAKERY)), **changes})
    with pytest.raises(DamagedRecord, match=said) as raised:
        decode_bakery(text, parameter=WHERE)
    assert WHERE in raised.value.message
    assert "deploy the bakery" in raised.value.hint


def test_a_manifest_is_what_the_tags_of_its_ami_say() -> None:
    tags = ami_tags(
        MANIFEST.image, lock_digest=MANIFEST.lock_digest, recipe_version="1.0.7", versions=MANIFEST.versions
    )
    strangers = {"Name": "cpu-mpi", "CreatedBy": "EC2 Image Builder"}
    assert manifest_of(MANIFEST.ami_id, MANIFEST.baked_at, {**tags, **strangers}) == MANIFEST
    assert manifest_of("ami-1", "2026-11-21", {"Name": "ubuntu"}) is None, "it is somebody else's"
    with pytest.raises(AssertionError):  # no component may be called as a fact
        encode_manifest(replace(MANIFEST, versions={"image": "1"}))


def test_a_manifest_is_compared_with_a_lock_as_it_was_written() -> None:
    written = json.loads(encode_manifest(MANIFEST))
    assert mismatches(Lock(image={}, host=MANIFEST.versions), written) == ()
    newer = Lock(image={}, host={**MANIFEST.versions, "efa": "2"})
    assert mismatches(newer, written) == ("efa is 1.43.2, locked is 2",)
    assert written["lock_digest"] == MANIFEST.lock_digest
