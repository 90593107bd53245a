"""The commands of the page of dl1 work in its order, in a yard that nobody made ready.

test_readme_session.py bakes the same AMI with the same two commands; here another stands in.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import Shell
from tests.end_to_end.roads import PlayedRoad

pytestmark = [pytest.mark.cdk, pytest.mark.slow]


def test_the_commands_of_the_page_work_in_their_order(fresh_shell: Shell, tmp_path: Path) -> None:
    road = PlayedRoad.at("dl1", fresh_shell, tmp_path, bakes=False)
    road.play(road.commands())
