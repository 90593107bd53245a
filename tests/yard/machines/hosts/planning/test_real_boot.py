"""What a host that really boots sees of this machine."""

from __future__ import annotations

from slipway.yard.machines.hosts.planning import real_boot


def test_a_checkout_in_a_home_on_a_file_system_of_its_own_is_seen_read_only() -> None:
    tree = {
        "mounts": [("/disk/you/slipway", "/disk/you/slipway"), ("/data/python", "/data/python")],
        "read_only": ["/disk/you/slipway"],
        "removed": [],
        "links": {},
        "written": {},
    }
    planned = real_boot.of_tree(tree, is_own=False, is_slurm=False)
    assert planned["read_only"] == [("/disk/you/slipway", "/disk/you/slipway")]
    assert ("/data/python", "/data/python") in planned["mounts"]
    assert ("/disk/you/slipway", "/disk/you/slipway") not in planned["mounts"], "it would be writable"
