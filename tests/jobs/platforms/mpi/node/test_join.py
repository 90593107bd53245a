"""A node joins only where jobs would find all that they rely on."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.jobs.platforms.mpi.node.join import NotWhole, refuse_unshared_files
from slipway.jobs.platforms.mpi.node.setting import NodePaths

MACHINE = NodePaths(root=Path("/"))


def test_a_node_whose_shared_files_are_not_mounted_does_not_join(tmp_path: Path) -> None:
    """The folder is there, as after a reboot whose mount failed, and lies on the root disk."""
    with pytest.raises(NotWhole, match=f"shared files of this cluster are not mounted at {tmp_path}") as told:
        refuse_unshared_files(MACHINE, str(tmp_path))
    assert "systemctl status slipway-boot" in str(told.value.hint)


def test_a_node_whose_shared_files_are_mounted_joins() -> None:
    refuse_unshared_files(MACHINE, "/proc")


def test_a_node_of_a_cluster_without_shared_files_joins() -> None:
    refuse_unshared_files(MACHINE, None)


def test_where_a_machine_is_only_a_folder_its_files_are_one_too(tmp_path: Path) -> None:
    refuse_unshared_files(NodePaths(root=tmp_path), str(tmp_path / "shared"))
