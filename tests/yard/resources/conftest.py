from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.yard.resources.world import World


@pytest.fixture(scope="session")
def aws() -> Iterator[str]:
    """An AWS API in this process, whose address own_client finds."""
    from moto.core.config import default_user_config
    from moto.server import ThreadedMotoServer

    default_user_config["batch"] = {"use_docker": False}
    default_user_config["iam"] = {"load_aws_managed_policies": True}
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    before = os.environ.get("SLIPWAY_YARD_ENDPOINT")
    os.environ["SLIPWAY_YARD_ENDPOINT"] = f"http://127.0.0.1:{port}"
    yield f"http://{host}:{port}"
    server.stop()
    if before is None:
        del os.environ["SLIPWAY_YARD_ENDPOINT"]
    else:
        os.environ["SLIPWAY_YARD_ENDPOINT"] = before


@pytest.fixture
def world(aws: str) -> Iterator[World]:
    world = World()
    yield world
    world.delete()
