"""The commands of dl1's page work in order, in a new yard."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import Shell
from tests.end_to_end.roads import PlayedRoad, split_at

pytestmark = [pytest.mark.cdk, pytest.mark.slow, pytest.mark.long]


@pytest.mark.long
def test_the_commands_of_the_page_bake_the_nodes_ami(fresh_shell: Shell, tmp_path: Path) -> None:
    road = PlayedRoad.at("dl1", fresh_shell, tmp_path, bakes=True)
    before, _ = split_at(road.commands(), "cdk deploy dl1")
    road.play(before)


def test_the_commands_of_the_page_work_in_their_order(fresh_shell: Shell, tmp_path: Path) -> None:
    road = PlayedRoad.at("dl1", fresh_shell, tmp_path, bakes=False)
    road.play(road.commands())
