"""A call of AWS without an answer is told by action and code, and a question never changes anything."""

from __future__ import annotations

import heapq
import random
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import count
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    ProxyConnectionError,
    SSLError,
)
from botocore.session import get_session
from botocore.stub import Stubber

from slipway.jobs.cloud import aws
from slipway.jobs.cloud.aws import Unanswered, ask, ask_all, client, forget_credentials, reader, sender
from slipway.jobs.cloud.objects import find_object, send_file
from slipway.jobs.words.errors import NoAnswer, SlipwayError
from slipway.yard.gateway.faults import Fault, FaultKind, script, scripted
from tests.yard.conftest import REGION, RunningYard


def throttle(yard: RunningYard, times: int) -> None:
    script(yard, Fault(service="ssm", operation="GetParameter", kind=FaultKind.THROTTLE, times=times))


def test_an_error_of_aws_becomes_an_unanswered_with_its_action_and_code(yard_shell: RunningYard) -> None:
    answer = ask(reader("ssm", REGION), "GetParameter", Name="/nowhere")
    assert isinstance(answer, Unanswered)
    assert (answer.action, answer.code, answer.is_denied) == ("ssm:GetParameter", "ParameterNotFound", False)


def test_a_reader_asks_again_when_it_is_throttled(yard_shell: RunningYard) -> None:
    yard_shell.client("ssm").put_parameter(Name="/a", Value="b", Type="String")
    throttle(yard_shell, 1)
    assert ask(reader("ssm", REGION), "GetParameter", Name="/a")["Parameter"]["Value"] == "b"


@pytest.mark.parametrize("make", [client, reader, sender])
def test_threads_make_their_clients_one_after_another(
    make: Any, yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore's sessions are not safe for threads: their dictionaries change while others walk them."""
    make.cache_clear()
    busy, session = Lock(), aws.own_session()
    create = session.create_client

    def alone(*arguments: Any, **options: Any) -> Any:
        assert busy.acquire(blocking=False), "two threads make clients at once"
        try:
            return create(*arguments, **options)
        finally:
            busy.release()

    monkeypatch.setattr(session, "create_client", alone)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(make, ("ssm", "s3", "ec2", "ecs", "ecr", "logs", "batch", "sagemaker")))
    assert len(set(map(id, made))) == 8


def test_a_minute_of_throttling_is_waited_out_with_a_word_of_it(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """BI-177."""
    monkeypatch.setattr(aws, "share", lambda: 0.0)
    yard_shell.client("ssm").put_parameter(Name="/a", Value="b", Type="String")
    throttle(yard_shell, 10)  # the pauses are 0.5, 1, 2, 4, and seven times 5 seconds at most
    assert ask(reader("ssm", REGION), "GetParameter", Name="/a")["Parameter"]["Value"] == "b"
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 4
    assert said[0].startswith("AWS throttles SSM GetParameter: it is tried again, for at most 1")


def test_throttling_without_end_ends_at_the_deadline(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count(step=15)
    monkeypatch.setattr(aws, "share", lambda: 0.0)
    monkeypatch.setattr(aws, "now", lambda: float(next(seconds)))
    throttle(yard_shell, 1000)
    answer = ask(reader("ssm", REGION), "GetParameter", Name="/a")
    assert isinstance(answer, Unanswered)
    assert answer.code == "ThrottlingException"
    assert scripted(yard_shell)[0]["struck"] < 20


@pytest.mark.parametrize("seed", range(4))
def test_of_many_commands_that_share_a_rate_none_waits_to_the_deadline(seed: int) -> None:
    """Let 32 commands ask 10,000 times; AWS answers 10 a second, after 40 that it answers at once."""
    chance = random.Random(seed)  # noqa: S311 - a simulation
    due = [(chance.random(), command, 0, 0.0) for command in range(32)]  # when, who, tries, since
    tokens, before, left, longest = 40.0, 0.0, 10_000, 0.0
    while due:
        now, command, tried, since = heapq.heappop(due)
        tokens, before = min(40.0, tokens + (now - before) * 10), now
        since = since if tried else now
        if tokens >= 1:
            tokens, left, longest = tokens - 1, left - 1, max(longest, now - since)
            tried, pause = 0, 0.02
        else:
            tried, pause = tried + 1, aws.longest_pause(tried) * chance.random()
        if left > 0:
            heapq.heappush(due, (now + pause, command, tried, since))
    assert longest < aws.DEADLINE_SECONDS - aws.LONGEST_PAUSE_SECONDS


def test_a_client_for_submissions_never_sends_twice(yard_shell: RunningYard) -> None:
    throttle(yard_shell, 2)
    assert isinstance(ask(sender("ssm", REGION), "GetParameter", Name="/a"), Unanswered)
    assert scripted(yard_shell)[0]["struck"] == 1


def test_a_change_that_is_throttled_is_waited_out_with_a_word_of_it(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(aws, "share", lambda: 0.0)
    script(yard_shell, Fault(service="s3", operation="CreateBucket", kind=FaultKind.THROTTLE, times=4))
    client("s3", REGION).create_bucket(Bucket="slipway-slow")
    assert [bucket["Name"] for bucket in yard_shell.client("s3").list_buckets()["Buckets"]] == [
        "slipway-slow"
    ]
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("AWS throttles S3 CreateBucket: it is tried again, for at most 1")


@pytest.mark.parametrize("kind", [FaultKind.DROP_RESPONSE, FaultKind.SERVER_ERROR])
def test_what_may_be_done_twice_is_sent_again_where_its_answer_is_lost(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch, kind: FaultKind
) -> None:
    monkeypatch.setattr(aws, "share", lambda: 0.0)
    yard_shell.client("s3").create_bucket(Bucket="slipway-lost")
    script(yard_shell, Fault(service="s3", operation="PutObject", kind=kind, times=2))
    client("s3", REGION).put_object(Bucket="slipway-lost", Key="a", Body=b"1")
    assert yard_shell.client("s3").get_object(Bucket="slipway-lost", Key="a")["Body"].read() == b"1"


@pytest.mark.parametrize(
    "lost", [ConnectionClosedError(endpoint_url="s3"), EndpointConnectionError(endpoint_url="s3")], ids=str
)
def test_an_upload_in_parts_outlasts_a_minute_without_a_network(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lost: Exception
) -> None:
    monkeypatch.setattr(aws, "share", lambda: 0.0)
    yard_shell.client("s3").create_bucket(Bucket="slipway-parts")
    large, size = tmp_path / "large", 9 << 20
    large.write_bytes(bytes(size))  # from 8 MiB on in parts
    s3, failures = client("s3", REGION), [lost] * 3

    def send(**_: Any) -> None:
        if failures:
            raise failures.pop()

    s3.meta.events.register("before-send.s3.UploadPart", send)
    send_file(s3, large, bucket="slipway-parts", key="large", extra={})
    assert not failures
    assert yard_shell.client("s3").head_object(Bucket="slipway-parts", Key="large")["ContentLength"] == size


def test_what_may_not_be_done_twice_is_not_sent_again_where_its_answer_is_lost(
    yard_shell: RunningYard,
) -> None:
    script(yard_shell, Fault(service="ecs", operation="CreateCluster", kind=FaultKind.DROP_RESPONSE))
    answer = ask(client("ecs", REGION), "CreateCluster", clusterName="made")
    assert isinstance(answer, Unanswered)
    assert answer.code == "ConnectionClosedError"


def test_a_process_that_forgets_its_credentials_signs_with_none_of_them_again(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node does so when it becomes the user that jobs run as."""
    assert "Arn" in ask(reader("sts", REGION), "GetCallerIdentity")
    with monkeypatch.context() as another:
        another.setenv("AWS_SECRET_ACCESS_KEY", "of somebody else")
        forget_credentials()
        refused = ask(reader("sts", REGION), "GetCallerIdentity")
    forget_credentials()
    assert isinstance(refused, Unanswered)
    assert refused.code == "SignatureDoesNotMatch"


def test_a_reader_refuses_to_change_anything_before_it_is_sent(yard_shell: RunningYard) -> None:
    with pytest.raises(AssertionError, match="DeleteParameter, which may change something"):
        reader("ssm", REGION).delete_parameter(Name="/a")


def test_an_endpoint_that_is_not_there_is_an_unanswered_too(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    answer = ask_all(reader("ec2", REGION), "DescribeVpcs", "Vpcs")
    assert isinstance(answer, Unanswered)
    assert (answer.action, answer.code) == ("ec2:DescribeVpcs", "EndpointConnectionError")


@pytest.mark.parametrize("status", [200, 302, 403])
@pytest.mark.parametrize(
    ("service", "operation", "asked"),
    [("batch", "DescribeJobs", {"jobs": ["j-1"]}), ("ec2", "DescribeVpcs", {})],
)
def test_a_web_page_in_place_of_an_answer_is_none(
    yard_shell: RunningYard,
    monkeypatch: pytest.MonkeyPatch,
    service: str,
    operation: str,
    asked: dict[str, list[str]],
    status: int,
) -> None:
    """A hotel's page to sign in says nothing about a job: botocore would read it as "there is none"."""
    monkeypatch.setattr(aws, "own_session", lru_cache(aws.own_session.__wrapped__))
    sent = SimpleNamespace(stream=lambda: [b"<!DOCTYPE html><html>Welcome"])
    page = AWSResponse("", status, {"content-type": "text/html"}, sent)
    aws.own_session().register("before-send", lambda **_: page)
    answer = ask(reader(service, REGION), operation, **asked)
    assert isinstance(answer, Unanswered)
    assert (answer.code, answer.is_denied) == ("HTTPClientError", False)
    assert f"a web page answered {operation} in place of AWS" in answer.message


EXPIRED = ClientError({"Error": {"Code": "ExpiredTokenException", "Message": "old"}}, "DescribeJobs")
PORTAL = SSLError(endpoint_url="https://a/", error="self-signed certificate")
AT_HOME = ProxyConnectionError(proxy_url="http://proxy.corp:3128")
DENIED = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeJobs")
FAILED = NoAnswer("logs:GetLogEvents gave no answer", code="ServiceUnavailableException", passes=True)


@pytest.mark.parametrize("error", [EXPIRED, PORTAL, AT_HOME, FAILED], ids=lambda error: type(error).__name__)
def test_what_waits_for_hours_outlasts_a_lost_network_and_an_expired_sign_in_and_says_it_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    before, coming = aws.own_session(), [error, error, None]

    def asked() -> Any:
        if trouble := coming.pop(0):
            raise trouble
        return aws.own_session()

    assert aws.outlast(asked, pause=lambda _: None) is not before, "it reads the credentials again"
    assert capsys.readouterr().err.count("AWS is asked again until it answers: ") == 1


@pytest.mark.parametrize("error", [EXPIRED, DENIED, KeyError("lost")], ids=lambda error: type(error).__name__)
def test_what_waits_for_hours_ends_at_once_where_no_waiting_helps(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "in the environment, which nobody can change any more")

    def asked() -> None:
        raise error

    with pytest.raises(type(error)):
        aws.outlast(asked, pause=lambda _: pytest.fail("it waits"))


def test_exported_keys_that_have_expired_are_told_as_such(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`aws configure export-credentials` exports this variable, too."""
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2020-01-01T00:00:00Z")
    for made in (reader, sender, client):
        answer = ask(made("sts", REGION), "GetCallerIdentity")
        assert isinstance(answer, Unanswered)
        assert (answer.code, answer.passes) == ("CredentialRetrievalError", False)
        assert "still expired" in answer.message


@pytest.mark.parametrize("url", ["127.0.0.1:5566", "http://", "localhost:5566"])
def test_an_endpoint_that_is_no_address_is_a_users_mistake(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    with pytest.raises(
        SlipwayError, match=f"AWS_ENDPOINT_URL is '{url}'; allowed is an address such as http"
    ):
        reader("sts", REGION)


@pytest.mark.parametrize("name", ["max_attempts", "metadata_service_num_attempts"])
def test_a_number_for_aws_tools_that_is_none_is_a_users_mistake(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"AWS_{name.upper()}", "often")
    aws.forget_clients()

    with pytest.raises(SlipwayError, match=f"AWS_{name.upper()}, or {name} .*, is 'often'; allowed"):
        reader("sts", REGION)


def test_nothing_counts_as_free_where_aws_tools_do_not_heed_the_endpoint_of_the_yard(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert aws.is_in_yard()
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "True")
    assert reader("sts", REGION).meta.endpoint_url == "https://sts.us-east-1.amazonaws.com"
    assert not aws.is_in_yard()


def test_empty_pages_are_passed_over_and_all_others_are_joined(yard_shell: RunningYard) -> None:
    pages: list[dict[str, Any]] = [
        {"Parameters": [], "NextToken": "one"},
        {"Parameters": [{"Name": "/a", "Value": "b"}], "NextToken": "two"},
        {"Parameters": []},
    ]
    fault = Fault(service="ssm", operation="GetParametersByPath", kind=FaultKind.RESPOND, body=pages)
    script(yard_shell, fault)
    found = ask_all(reader("ssm", REGION), "GetParametersByPath", "Parameters", Path="/")
    assert [parameter["Name"] for parameter in found] == ["/a"]


def test_a_page_that_comes_again_and_again_ends_in_an_unanswered(yard_shell: RunningYard) -> None:
    page = {"Parameters": [], "NextToken": "same"}
    fault = Fault(
        service="ssm", operation="GetParametersByPath", kind=FaultKind.RESPOND, body=[page], times=None
    )
    script(yard_shell, fault)
    answer = ask_all(reader("ssm", REGION), "GetParametersByPath", "Parameters", Path="/")
    assert isinstance(answer, Unanswered)
    assert answer.code == "PaginationError"


def test_the_region_of_the_environment_is_read_as_other_tools_do(
    yard_shell: RunningYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert reader("ssm").meta.region_name == "eu-west-1"


def test_clients_that_act_share_one_session_and_upload_files(yard_shell: RunningYard, tmp_path: Path) -> None:
    file = tmp_path / "words"
    file.write_text("rain")
    client("sqs", REGION).create_queue(QueueName="a")
    storage = sender("s3", REGION)
    storage.create_bucket(Bucket="words-of-mine")
    client("s3", REGION).upload_file(str(file), "words-of-mine", "words")
    assert storage.get_object(Bucket="words-of-mine", Key="words")["Body"].read() == b"rain"


# Asking for an object gives a true answer, or an error that says what to do, and never a guess.
WHERE = {"Bucket": "slipway-c6i-data", "Key": "code/x.tar.gz"}


@pytest.fixture
def s3() -> Any:
    return get_session().create_client(
        "s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )


def refused(s3: Any, operation: str, code: str) -> Stubber:
    stub = Stubber(s3)
    stub.add_client_error({"HeadObject": "head_object", "GetObject": "get_object"}[operation], code)
    stub.activate()
    return stub


@pytest.mark.parametrize(("operation", "code"), [("HeadObject", "404"), ("GetObject", "NoSuchKey")])
def test_an_object_that_is_not_there_is_none(s3: Any, operation: str, code: str) -> None:
    refused(s3, operation, code)
    assert find_object(s3, operation, **WHERE) is None


def test_a_refusal_that_does_not_say_why_names_what_usually_causes_it(s3: Any) -> None:
    """S3 answers HeadObject without a body: expired keys, and a bucket of another region, are a bare 400."""
    refused(s3, "HeadObject", "400")
    with pytest.raises(NoAnswer, match="HeadObject gave no answer: 400") as error:
        find_object(s3, "HeadObject", **WHERE)
    assert "sign in to AWS again" in str(error.value.hint)
    assert "region" in str(error.value.hint)


@pytest.mark.parametrize(("operation", "code"), [("HeadObject", "403"), ("GetObject", "AccessDenied")])
def test_who_may_not_look_is_told_which_permission_is_missing(s3: Any, operation: str, code: str) -> None:
    """There is no s3:HeadObject, and the answer to it says no more than 403."""
    refused(s3, operation, code)
    with pytest.raises(NoAnswer) as refusal:
        find_object(s3, operation, **WHERE)
    policy = "slipway cluster permissions CLUSTER --for submit prints the policy"
    assert refusal.value.hint == f"allow s3:GetObject to your role: {policy}"
    assert "s3://slipway-c6i-data/code/x.tar.gz" in refusal.value.message


def test_a_store_that_is_out_of_order_is_not_an_absent_object(s3: Any) -> None:
    refused(s3, "HeadObject", "500")
    with pytest.raises(NoAnswer, match="500"):
        find_object(s3, "HeadObject", **WHERE)
