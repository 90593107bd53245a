"""Checkpoints in the yard's S3 hold what those in a folder do, and no published one is ever lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("obstore")
pytest.importorskip("moto")

from slipway.containers.data.sources import source_s3
from slipway.containers.data.sources.source_s3 import Bucket
from slipway.containers.runtime.checkpoint.checkpoints import Checkpoints, Resumed, SaveFailed
from slipway.containers.runtime.checkpoint.folder import Fenced, FolderInUse
from slipway.containers.runtime.checkpoint.resume import saved_batch
from slipway.containers.runtime.errors import RESUMABLE_EXIT_CODE, Interruption
from slipway.containers.training.bucket import BucketLease, CheckpointBucket
from slipway.yard.endpoint import Yard
from slipway.yard.gateway.faults import Fault, FaultKind, script, unscript
from tests.containers.data.failing_s3 import denying
from tests.containers.runtime.saving import is_right, quiet, save, stall_after_check, take_over, training
from tests.local_server import QuietHandler, serving

if TYPE_CHECKING:
    from tests.yard.conftest import RunningYard

NAME = "checkpoints"
PREFIX = "jobs/bert"


@pytest.fixture
def bucket(s3: Any, shared_yard: RunningYard) -> Iterator[CheckpointBucket]:
    s3.create_bucket(Bucket=NAME)
    yield CheckpointBucket(Bucket(NAME, shared_yard.endpoint, None), PREFIX)
    unscript(shared_yard)
    for found in s3.list_objects_v2(Bucket=NAME).get("Contents", ()):
        s3.delete_object(Bucket=NAME, Key=found["Key"])
    s3.delete_bucket(Bucket=NAME)


def keys(bucket: CheckpointBucket) -> list[str]:
    """Return the objects, with a token as x."""
    return sorted(
        "/".join("x" if "-" in part and part[:1].isdigit() else part for part in key.split("/"))
        for key in bucket.below("")
    )


def opened(bucket: CheckpointBucket, attempt: int = 1, lease_seconds: float = 0.0) -> Checkpoints:
    made = Checkpoints(bucket, training(attempt), say=quiet)
    made.lease_seconds = lease_seconds or made.lease_seconds
    return made


def saved(bucket: CheckpointBucket, *steps: int, attempt: int = 1) -> None:
    with opened(bucket, attempt) as checkpoints:
        for step in steps:
            save(checkpoints, step)


def resumed(bucket: CheckpointBucket, attempt: int = 9) -> Resumed:
    with opened(bucket, attempt) as checkpoints:
        found = checkpoints.resume("required")
    assert found is not None
    return found


def fault(yard: Yard, operation: str, kind: FaultKind, times: int = 1) -> None:
    script(yard, Fault(service="s3", operation=operation, kind=kind, times=times))


def files(*steps: int) -> list[str]:
    found = [
        f"step-{step:010d}/{name}" for step in steps for name in ("MANIFEST.json", "x/rank-00000.safetensors")
    ]
    return ["LEASE.json", *sorted(found)]


def test_the_newest_comes_back_whole_and_the_last_n_good_ones_are_kept(bucket: CheckpointBucket) -> None:
    saved(bucket, 1, 2, 3)
    assert keys(bucket) == files(2, 3)
    found = resumed(bucket)
    assert found.step == 3
    assert is_right(found)


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("PutObject", FaultKind.THROTTLE),
        ("PutObject", FaultKind.DROP_RESPONSE),
        ("GetObject", FaultKind.DROP_RESPONSE),
        ("ListObjectsV2", FaultKind.SERVER_ERROR),
    ],
)
def test_a_request_that_fails_once_costs_nothing(
    bucket: CheckpointBucket, shared_yard: RunningYard, operation: str, kind: FaultKind
) -> None:
    """Throttled, failed, or carried out with its answer lost: also the conditional write that publishes."""
    saved(bucket, 1)
    with opened(bucket, 2) as checkpoints:
        fault(shared_yard, operation, kind)
        save(checkpoints, 2)
        fault(shared_yard, operation, kind)
        found = checkpoints.resume("required")
        assert found is not None
        assert is_right(found)
        assert found.step == 2
        fault(shared_yard, operation, kind)
    assert keys(bucket) == files(1, 2)
    saved(bucket, 3, attempt=3)


def test_a_bucket_that_goes_on_failing_fails_the_save_and_keeps_the_older_one(
    bucket: CheckpointBucket, shared_yard: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(bucket) as checkpoints:
        save(checkpoints, 1)
        fault(shared_yard, "PutObject", FaultKind.SERVER_ERROR, times=50)
        with pytest.raises(SaveFailed, match=f"s3://{NAME}/{PREFIX}/step-0000000002") as refused:
            save(checkpoints, 2)
        assert "\n" not in str(refused.value)
        unscript(shared_yard)
        assert keys(bucket) == files(1)
        save(checkpoints, 3)
    assert resumed(bucket).step == 3


def test_a_bucket_that_does_not_answer_is_no_damage(
    bucket: CheckpointBucket, shared_yard: RunningYard
) -> None:
    """Falling back to an older checkpoint would lose steps that are there."""
    saved(bucket, 1, 2)
    with opened(bucket, 2) as checkpoints:
        fault(shared_yard, "GetObject", FaultKind.SERVER_ERROR, times=50)
        with pytest.raises(Interruption) as refused:
            checkpoints.resume()
        assert refused.value.exit_code == RESUMABLE_EXIT_CODE
        unscript(shared_yard)


def test_a_bucket_that_does_not_answer_at_the_begin_ends_the_attempt_resumable(
    bucket: CheckpointBucket, shared_yard: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(bucket, 1)
    fault(shared_yard, "PutObject", FaultKind.SERVER_ERROR, times=50)
    with pytest.raises(Interruption, match="cannot be used now") as refused:
        opened(bucket, 2).__enter__()
    assert refused.value.exit_code == RESUMABLE_EXIT_CODE
    unscript(shared_yard)
    fault(shared_yard, "ListObjectsV2", FaultKind.SERVER_ERROR, times=50)
    with pytest.raises(Interruption, match="cannot be used"):
        saved_batch(bucket)
    unscript(shared_yard)
    with monkeypatch.context() as denied, denying(denied, 403, "AccessDenied"):
        denied.setattr(bucket, "_bucket", Bucket(NAME, os.environ["AWS_ENDPOINT_URL_S3"], None))
        with pytest.raises(SaveFailed, match="access is denied"):
            opened(bucket, 2).__enter__()


def test_keys_that_have_expired_end_the_resuming_resumable(
    bucket: CheckpointBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F29: another attempt has keys of its own."""
    saved(bucket, 1)
    with (
        opened(bucket, 2) as checkpoints,
        monkeypatch.context() as expired,
        denying(expired, 400, "ExpiredToken"),
    ):
        expired.setattr(bucket, "_bucket", Bucket(NAME, os.environ["AWS_ENDPOINT_URL_S3"], None))
        with pytest.raises(Interruption, match="the credentials have expired") as refused:
            checkpoints.resume()
    assert refused.value.exit_code == RESUMABLE_EXIT_CODE


def test_a_manifest_that_never_came_is_passed_over_and_its_files_are_removed_later(
    bucket: CheckpointBucket, s3: Any
) -> None:
    saved(bucket, 1, 2)
    half = f"{PREFIX}/step-0000000003/1-abcdefabcdef/rank-00000.safetensors"
    s3.put_object(Bucket=NAME, Key=half, Body=b"half")
    s3.put_object(
        Bucket=NAME, Key=f"{PREFIX}/step-0000000002/7-abcdefabcdef/rank-00001.safetensors", Body=b""
    )
    s3.put_object(Bucket=NAME, Key=f"{PREFIX}/step-0000000003/notes.txt", Body=b"a person's")
    assert resumed(bucket).step == 2
    left = keys(bucket)
    assert "step-0000000003/notes.txt" in left
    left.remove("step-0000000003/notes.txt")
    assert left == files(1, 2)


def test_a_changed_object_is_found_and_the_older_one_taken(bucket: CheckpointBucket, s3: Any) -> None:
    saved(bucket, 1, 2)
    # The manifest is written last; files that no manifest names are removed.
    for key in sorted(key for key in bucket.below("") if key.startswith("step-0000000002/")):
        whole = s3.get_object(Bucket=NAME, Key=f"{PREFIX}/{key}")["Body"].read()
        for content in (whole[:100], whole[:20] + b"#" + whole[21:]):
            s3.put_object(Bucket=NAME, Key=f"{PREFIX}/{key}", Body=content)
            assert resumed(bucket).step == 1
        s3.put_object(Bucket=NAME, Key=f"{PREFIX}/{key}", Body=whole)
        assert resumed(bucket).step == 2
        s3.delete_object(Bucket=NAME, Key=f"{PREFIX}/{key}")
        assert resumed(bucket).step == 1
        s3.put_object(Bucket=NAME, Key=f"{PREFIX}/{key}", Body=whole)


def test_a_stale_attempt_cannot_publish(bucket: CheckpointBucket) -> None:
    with opened(bucket, 1) as stale:
        save(stale, 1)
        with opened(bucket, 2) as fresh:
            with pytest.raises(Fenced, match="attempt 2"):
                save(stale, 2)
            assert keys(bucket) == files(1)
            save(fresh, 3)
    assert resumed(bucket).step == 3


def test_what_wakes_between_check_and_manifest_publishes_nothing_that_verifies(
    bucket: CheckpointBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its successor has removed its files; the manifest that still comes is damage, and is replaced."""
    with opened(bucket, 1) as stale:
        save(stale, 1)
        stall_after_check(monkeypatch, lambda: take_over(opened(bucket, 2)))
        save(stale, 2)
    assert resumed(bucket).step == 1
    saved(bucket, 2, attempt=10)
    assert resumed(bucket, 11).step == 2


@pytest.mark.parametrize("is_damaged", [False, True])
def test_who_wakes_after_its_check_leaves_the_step_that_its_successor_published(
    bucket: CheckpointBucket, s3: Any, monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    saved(bucket, 1)
    if is_damaged:
        saved(bucket, 2)
        s3.put_object(Bucket=NAME, Key=f"{PREFIX}/step-0000000002/MANIFEST.json", Body=b"{}")
    with opened(bucket, 1) as stale:
        stall_after_check(monkeypatch, lambda: saved(bucket, 2, attempt=2))
        with pytest.raises(SaveFailed, match=r"another run published .* at the same moment"):
            save(stale, 2)
    found = resumed(bucket)
    assert (found.step, found.manifest.attempt) == (2, 2)
    assert is_right(found)
    assert keys(bucket) == files(1, 2)


def test_a_lease_that_is_renewed_while_its_successor_takes_it_is_taken_all_the_same(
    bucket: CheckpointBucket,
) -> None:
    """An attempt that was cut off renews until it learns that another has come."""
    with opened(bucket, 1) as stale:
        lease = stale._writer.lease
        assert lease is not None
        bucket_lease = lease._file
        real, times = BucketLease.replace, iter([True])

        def renewed_first(taking: BucketLease, content: bytes, token: str) -> bool:
            if next(times, False):
                bucket_lease.renew()
            return real(taking, content, token)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(BucketLease, "replace", renewed_first)
            saved(bucket, 1, attempt=2)
    assert resumed(bucket).manifest.attempt == 2


def test_a_conditional_write_that_meets_another_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 answers 409 while another conditional write of the key is on its way, and has written nothing."""
    conflicts = [True, True]

    class Conflicting(QuietHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if conflicts:
                conflicts.pop()
                self.answer(409, b"<Error><Code>ConditionalRequestConflict</Code></Error>")
            else:
                self.answer(200, b"", {"ETag": '"one"'})

        def do_GET(self) -> None:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

        do_HEAD = do_GET

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with serving(Conflicting) as endpoint:
        assert CheckpointBucket(Bucket(NAME, endpoint, None), PREFIX).create("key", b"content") == '"one"'


def test_two_jobs_on_one_prefix_are_refused(bucket: CheckpointBucket) -> None:
    with opened(bucket, lease_seconds=0.5), pytest.raises(FolderInUse, match="run r1, attempt 1"):
        Checkpoints(bucket, training(1, run="r2"), say=quiet).__enter__()


def test_of_two_who_take_a_free_lease_one_gets_it(bucket: CheckpointBucket) -> None:
    one, other = bucket.open(), bucket.open()
    assert one.create(b"one", "1")
    assert not other.create(b"other", "2")
    assert other.read() == b"one"
    third = bucket.open()
    third.read()
    assert other.replace(b"other", "2")
    assert not third.replace(b"third", "3")
    one.renew()
    assert other.read() == b"other", "a renewal never writes over a newer holder"
    other.renew()
    assert (other.read() or b"").strip() == b"other"
    other.remove()
    assert bucket.open().create(b"next", "4")


def test_a_missing_bucket_is_one_clear_line(s3: Any, shared_yard: RunningYard) -> None:
    nowhere = CheckpointBucket(Bucket("no-such-bucket", shared_yard.endpoint, None), PREFIX)
    with pytest.raises(SaveFailed, match="the bucket does not exist"):
        opened(nowhere).__enter__()
    source_s3.opened.cache_clear()
