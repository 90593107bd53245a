"""A command's environment has its variables and secrets; its definition has only the secrets' names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from slipway.containers.recipes.command.config import SECRETS_PREFIX, decode_arguments
from slipway.containers.recipes.command.train import read_secrets
from slipway.containers.runtime.errors import MISTAKE_EXIT_CODE, RESUMABLE_EXIT_CODE, Refusal
from slipway.containers.training.settings import InvalidSettings
from tests.containers.recipes.command.nodes import Node
from tests.yard.conftest import RunningYard, yard

__all__ = ["yard"]

SHOW = "import os; print(os.environ['MINE'], 'KEY' in os.environ)"
COMMAND = ('command=["./show"]', f"source=/tmp/{'0' * 64}.tar.gz")


def test_variables_reach_every_rank(tmp_path: Path) -> None:
    mine = "$(id) 'é'\n"
    done = Node(tmp_path, {"show.py": SHOW}).run(
        "python", "show.py", settings={"environment": json.dumps({"MINE": mine})}
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0]  False", "[0] $(id) 'é'", "[1]  False", "[1] $(id) 'é'"]


def test_secrets_are_read_by_name_and_no_others_are(yard: RunningYard) -> None:
    client = yard.client("secretsmanager")
    client.create_secret(Name=f"{SECRETS_PREFIX}wandb", SecretString="s3cret")
    assert read_secrets({"KEY": "wandb"}, client) == {"KEY": "s3cret"}
    with pytest.raises(Refusal, match="slipway/jobs/other cannot be read: ResourceNotFoundException"):
        read_secrets({"KEY": "other"}, client)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (EndpointConnectionError(endpoint_url="https://secretsmanager"), RESUMABLE_EXIT_CODE),
        (ClientError({"Error": {"Code": "ThrottlingException"}}, "GetSecretValue"), RESUMABLE_EXIT_CODE),
        (ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "GetSecretValue"), MISTAKE_EXIT_CODE),
    ],
)
def test_a_service_that_does_not_answer_now_is_no_mistake(failure: Exception, code: int) -> None:
    class Failing:
        def get_secret_value(self, **_: str) -> None:
            raise failure

    with pytest.raises(Refusal, match="the secret slipway/jobs/wandb cannot be read") as refused:
        read_secrets({"KEY": "wandb"}, Failing())
    assert refused.value.exit_code == code


@pytest.mark.parametrize(
    "setting",
    [
        'environment={"RANK": "1"}',
        'environment={"SLIPWAY_JOB": "x"}',
        'environment={"a b": "x"}',
        'environment={"A": 1}',
        "environment=[]",
        'secrets={"KEY": "../other"}',
        'secrets={"KEY": "arn:aws:secretsmanager:us-east-1:123456789012:secret:x"}',
        'secrets={"PATH": "mine"}',
    ],
)
def test_what_would_harm_a_launch_is_refused(setting: str) -> None:
    with pytest.raises(InvalidSettings, match=setting.partition("=")[0]):
        decode_arguments([*COMMAND, setting])
