"""All mistakes of a declaration are found at once, and each message says what is allowed and what to do."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.infra.clusters import CLUSTERS
from slipway.infra.declare.checks.clusters import all_problems, problems_of
from slipway.infra.declare.checks.values import field_types, shown
from slipway.infra.declare.overrides import apply
from slipway.infra.declare.types import BatchCluster, Cluster, ControllerSize, FileSystem, Market
from slipway.jobs.words.errors import InvalidConfig
from tests.infra.synthesis import CLUSTER, MPI_CLUSTER, SAGEMAKER_CLUSTER, SLURM_CLUSTER

SOUND_MPI = replace(MPI_CLUSTER, instance_type="c6i.16xlarge")
RESERVED = "cr-0123456789abcdef0"

# A user's AMI that mounts Lustre, which none of ours does.
OWN_LUSTRE: dict[str, Any] = {
    "file_system": FileSystem.FSX_LUSTRE,
    "ami_parameter": "/mine/ami",
    "ami_made_from": "gaudi-ecs",
    "ami_adds": ("lustre-client",),
}


MORNINGS = {"start_at": "*/30 8-18 * * MON-FRI", "stop_at": "0 20 * * 7", "time_zone": "Europe/Berlin"}


def said_of(sound: Cluster = CLUSTER, /, **changes: Any) -> str:
    """Return all messages about a valid cluster after these changes; Any allows values of a wrong type."""
    return "\n".join(map(str, problems_of(replace(sound, **changes))))


def test_every_mistake_of_every_cluster_is_reported_once_and_all_at_once_in_one_line_each() -> None:
    apply({}, CLUSTERS)  # the clusters that we ship have none
    first = replace(CLUSTER, max_nodes=0, job_attempts=11, zone="us-west-2a")
    second = replace(CLUSTER, name="other", alert_email="nobody", vpc_cidr="10.0.0.0/8")
    third = replace(CLUSTER, name="third", instance_type="dl1.24xlage")
    with pytest.raises(InvalidConfig) as refusal:
        apply({}, (first, second, third))
    lines = refusal.value.message.splitlines()
    assert sorted(line.partition(":")[0] for line in lines) == [
        "dl1.job_attempts",
        "dl1.max_nodes",
        "dl1.zone",
        "other.alert_email",
        "other.vpc_cidr",
        "third.instance_type",
    ]
    (problem,) = all_problems([CLUSTER, CLUSTER])
    assert "is the name of 2 clusters" in problem.message
    (problem,) = problems_of(replace(CLUSTER, name="dl1\nok: all is well"))
    assert "\n" not in str(problem)
    assert r"dl1\nok" in str(problem)


# Settings, words of the refusal.
Rows = tuple[tuple[dict[str, Any], str], ...]
WRONG: Rows = (
    ({"name": "dl1-network"}, "the name of another cluster's network stack"),
    ({"market": Market.TARGETED_RESERVATION}, "reservation_id: is missing"),
    ({"market": Market.CAPACITY_BLOCK}, "reservation_id: is missing"),
    ({"reservation_id": "cr-0123456789abcdef0"}, "market on-demand takes no reservation"),
    (
        {"market": Market.OPEN_RESERVATION, "reservation_id": "cr-0123456789abcdef0"},
        "market open-reservation takes no reservation",
    ),
    (
        {"market": Market.CAPACITY_BLOCK, "reservation_id": "cr-1"},
        "not a capacity reservation such as cr-",
    ),
    ({"zone": "use1-az1"}, "a zone ID, not an Availability Zone"),
    ({"zone": "us-west-2-lax-1a"}, "a Local Zone"),
    ({"zone": "us-east-1-wl1-bos-wlz-1"}, "a Wavelength Zone"),
    ({"zone": "us-east-1a\n"}, "not an Availability Zone of us-east-1; write us-east-1 and one letter"),
    ({"vpc_cidr": "8.8.0.0/16"}, "not private"),
    ({"vpc_cidr": "10.20.0.0/26"}, "16 nodes need 52 addresses in its private half; use a /25"),
    (
        {"instance_type": "p5.48xlarge", "max_nodes": 1000, "vpc_cidr": "10.20.0.0/21"},
        "1000 nodes need 2020 addresses in its private half; use a /20",
    ),
    ({"vpc_cidr": "10.20.1.0/16"}, "not an IPv4 network"),
    ({"vpc_cidr": "fd00::/56"}, "not an IPv4 network"),
    ({"peer_cidrs": ("10.20.128.0/17",)}, "overlaps the peer network 10.20.128.0/17"),
    ({"peer_cidrs": ("10.99.0.0/33",)}, "peer_cidrs: is '10.99.0.0/33', not an IPv4 network"),
    ({"peer_cidrs": ["10.99.0.0/16"]}, "not a tuple of texts"),
    ({"efa_interfaces": -1}, "takes 0 to 4"),
    ({"file_system": FileSystem.FSX_LUSTRE, "fsx_capacity_gib": 1300}, "use 2400"),
    ({"file_system": FileSystem.FSX_LUSTRE, "fsx_mbps_per_tib": 77}, "allowed are 125, 250, 500, 1000"),
    ({"fsx_capacity_gib": 2400}, "has no effect: the file system is efs"),
    ({"log_retention_days": 364}, "the nearest is 365"),
    ({"ami_parameter": "gaudi"}, "not a full SSM parameter name"),
    ({"image": "../gaudi"}, "not the name of a folder of containers/images"),
    ({"image": "gaudy"}, "no container image of containers/images; did you mean gaudi?"),
    (
        {"instance_type": "c6i.32xlarge", "region": "il-central-1", "zone": "il-central-1a"},
        "egress: is endpoints in il-central-1, whose S3 prefix list is not known",
    ),
    ({"alert_email": "a@b.c,d@e.f"}, "not one e-mail address"),
    ({"account": "12345"}, "not an account of twelve digits"),
    ({"market": "spot"}, "is 'spot', not Market.ON_DEMAND or"),
    ({"keep_data": "false"}, "is 'false', not True or False"),
    ({"root_volume_gib": 8}, "a whole number from 50 to 16384 GiB"),
    ({"tags": {"owner": 7}}, "not a mapping of text to text"),
    ({"tags": {"slipway:cluster": "x"}}, "are reserved"),
    ({"tags": {"AWS:team": "x"}}, "are reserved"),
    ({"tags": {"owner\n": "x"}}, r"with '\n'"),
)
WRONG_MPI: Rows = (
    ({"market": Market.CAPACITY_BLOCK}, "AWS sells these only for P and Trn types"),
    ({"market": Market.TARGETED_RESERVATION}, "reservation_id: is missing"),
    ({"max_nodes": 51}, "from 1 to 50; EC2 Auto Scaling protects 50 nodes of a group from scaling in"),
    ({"job_timeout_hours": 49}, "from 1 to 48 hours; Systems Manager ends a command then"),
    ({"idle_minutes": 5}, "from 10 to 1440 minutes"),
    ({"machine_image": "cpu-mpy"}, "no machine image of Slipway's or AWS's; did you mean cpu-mpi?"),
    ({"machine_image": "gaudi"}, "no machine image of Slipway's or AWS's; did you mean gaudi-mpi?"),
    ({"mpi": "open-mpi"}, "not Mpi.OPEN_MPI or Mpi.INTEL_MPI or Mpi.MPICH"),
    ({"start_at": "0 8 * *"}, "not five fields such as 0 8 * * MON-FRI"),
    ({"start_at": "0 8 * * MON; reboot"}, "not five fields"),
    ({"start_at": "0 24 * * *"}, "is '0 24 * * *', where 24 is not from 0 to 23"),
    ({"stop_at": "0 8 0 * *"}, "where 0 is not from 1 to 31"),
    ({"time_zone": "Europe/Berlin"}, "has no effect: neither start_at nor stop_at is set"),
    ({"ssh_cidrs": "10.0.0.0/8"}, "not a tuple of texts"),
    ({"ssh_cidrs": ("10.0.0.0/8", "192.168.0.0/16")}, "opens port 22 to 16842752 addresses"),
    ({"vpc_cidr": "10.30.0.0/28"}, "4 nodes need 28 addresses in its private half; use a /26"),
)
WRONG_SLURM: Rows = (
    (
        {"instance_type": "trn1.2xlarge", "max_nodes": 2},
        "max_nodes: is 2, but nodes of trn1.2xlarge cannot train together without EFA",
    ),
    (
        {"instance_type": "trn1.2xlarge", "max_nodes": 1, "efa_interfaces": 1},
        "efa_interfaces: is 1, but trn1.2xlarge has no EFA",
    ),
    ({"efa_interfaces": 16}, "efa_interfaces: is 16; trn1.32xlarge takes 0 to 8"),
    (
        {"controller": ControllerSize.SMALL, "max_nodes": 64},
        "max_nodes: is 64, but a small controller has room for 31 workers",
    ),
    ({"file_system": FileSystem.NONE}, "file_system: is none, but the home and the folders of jobs"),
    ({"max_nodes": 4000}, "max_nodes: is 4000, not a whole number from 1 to 2047"),
)
WRONG_SAGEMAKER: Rows = (
    (
        {"instance_type": "p4d.24xlarge"},
        "instance_type: is 'p4d.24xlarge', but SageMaker's types begin with ml.; write 'ml.p4d.24xlarge'",
    ),
    ({"instance_type": "ml.p4d.24xlrge"}, "did you mean ml.p4d.24xlarge"),
    ({"instance_type": "ml.dl1.24xlarge"}, "which is not in the catalogue of instance types"),
    (
        {"market": Market.CAPACITY_BLOCK, "reservation_id": RESERVED},
        "market: is capacity-block, but SageMaker uses no reservation of EC2",
    ),
    ({"spot_wait_hours": 3}, "spot_wait_hours: has no effect: the market is on-demand"),
    (
        {"market": Market.SPOT, "warm_pool_minutes": 30},
        "warm_pool_minutes: is 30, but SageMaker keeps no Spot instances warm",
    ),
    ({"warm_pool_minutes": 61}, "warm_pool_minutes: is 61, not a whole number from 0 to 60"),
    ({"volume_gb": 9000}, "volume_gb: is 9000, but ml.p4d.24xlarge has 8000 GB of local storage"),
    ({"file_system": FileSystem.EFS}, "file_system: is efs, but jobs of SageMaker share FSx for Lustre"),
    ({"efa_interfaces": 4}, "efa_interfaces: is 4, but SageMaker opens every EFA interface"),
    ({"job_timeout_hours": 673}, "SageMaker ends every training job after 28 days"),
    (
        {"instance_type": "ml.trn1.32xlarge"},
        "machine_image: cannot be used: image 'sagemaker-pytorch' has no tag for neuron; it has cpu,",
    ),
    ({"machine_image": "cpu-mpi"}, "containers/images/cpu-mpi is no image of a registry"),
)
TABLES = (
    (CLUSTER, WRONG),
    (SOUND_MPI, WRONG_MPI),
    (SLURM_CLUSTER, WRONG_SLURM),
    (SAGEMAKER_CLUSTER, WRONG_SAGEMAKER),
)


@pytest.mark.parametrize(
    ("sound", "changes", "said"), [(sound, *row) for sound, rows in TABLES for row in rows]
)
def test_a_wrong_setting_is_refused_with_what_is_allowed(
    sound: Cluster, changes: dict[str, Any], said: str
) -> None:
    assert problems_of(sound) == ()
    found = list(map(str, problems_of(replace(sound, **changes))))
    assert said in "\n".join(found)
    assert all("\n" not in line for line in found)


@pytest.mark.parametrize(
    "changes",
    [
        {"efa_interfaces": 0},
        {"efa_interfaces": 4},
        {"max_nodes": 1},
        {"max_nodes": 1000},
        {"market": Market.TARGETED_RESERVATION, "reservation_id": "cr-0123456789abcdef0"},
        {**OWN_LUSTRE, "fsx_capacity_gib": 4800, "fsx_mbps_per_tib": 1000},
        {"vpc_cidr": "10.20.0.0/24"},
        {"vpc_cidr": "172.31.0.0/26", "max_nodes": 2},
        {"peer_cidrs": ("10.21.0.0/16", "192.168.0.0/16")},
        {"tags": {"Größe 東京": "größe 東京", "empty": "", "punctuation": "_.:/=+-@"}},
        {"kind": "mpi"},
        {"kind": "mpi", "instance_type": "c6i.32xlarge", "efa_interfaces": 1},
        {"kind": "mpi", "instance_type": "c6i.metal"},
        {"kind": "mpi", "market": Market.SPOT},
        {"kind": "mpi", "market": Market.TARGETED_RESERVATION, "reservation_id": "cr-0123456789abcdef0"},
        {"kind": "mpi", "ssh_cidrs": ("10.0.0.0/8",)},
        {"kind": "mpi", "ssh_cidrs": ("10.0.0.0/9", "10.128.0.0/9", "10.1.0.0/16")},
        {"kind": "mpi", "idle_minutes": None, **MORNINGS},
    ],
)
def test_what_aws_takes_is_accepted(changes: dict[str, Any]) -> None:
    settings = {name: value for name, value in changes.items() if name != "kind"}
    assert said_of(SOUND_MPI if "kind" in changes else CLUSTER, **settings) == ""


def test_each_kind_has_settings_of_its_own() -> None:
    with pytest.raises(InvalidConfig, match=r"c6i\.image of the context: is not a setting"):
        apply({"c6i.image": "gaudi"}, (CLUSTER, SOUND_MPI))
    with pytest.raises(InvalidConfig, match=r"dl1\.idle_minutes of the context: is not a setting"):
        apply({"dl1.idle_minutes": "30"}, (CLUSTER, SOUND_MPI))
    with pytest.raises(InvalidConfig, match=r"write c6i\.idle_minutes$"):
        apply({"idle_minutes": "30"}, (CLUSTER, SOUND_MPI))
    changed = apply({"c6i.ssh_cidrs": "10.9.0.0/16,10.8.0.0/16", "c6i.idle_minutes": "none"}, (SOUND_MPI,))
    assert changed == (replace(SOUND_MPI, ssh_cidrs=("10.9.0.0/16", "10.8.0.0/16"), idle_minutes=None),)


@pytest.mark.parametrize(
    "secret", ["AKIA" + "A" * 16, "hf_" + "a" * 34, "x AWS_SECRET_ACCESS_KEY=y", "ghp_" + "a" * 36]
)
def test_a_secret_is_refused_and_never_printed(secret: str) -> None:
    for changes in ({"alert_email": secret}, {"tags": {"note": secret}}, {"peer_cidrs": (secret,)}):
        said = said_of(**changes)
        assert "hidden" in said
        assert secret not in said
    assert secret not in said_of(tags={"note": [secret]}), "nor where its type is wrong"
    assert secret not in shown([secret])


anything = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text()) | st.binary()
)


@pytest.mark.parametrize("sound", [CLUSTER, SOUND_MPI], ids=lambda sound: sound.kind)
@given(data=st.data())
def test_whatever_stands_in_an_entry_it_is_judged_and_never_a_crash(
    sound: Cluster, data: st.DataObject
) -> None:
    optional = {field.name: anything for field in fields(sound)}
    values: dict[str, Any] = data.draw(st.fixed_dictionaries({}, optional=optional))
    for problem in all_problems([replace(sound, **values), CLUSTER]):
        assert str(problem).isprintable()
        assert problem.message


@given(
    name=st.sampled_from(sorted(set(field_types(BatchCluster)) - {"tags", "peer_cidrs"})),
    value=st.floats() | st.binary(),
)
def test_no_setting_takes_a_number_with_a_fraction_or_bytes(name: str, value: object) -> None:
    assert f"{name}: is " in said_of(**{name: value})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ml.c6i.16xlarge", "write 'c6i.16xlarge'"),
        ("ml.p4d.24xlarge", "write 'p4d.24xlarge', or declare a SageMakerCluster"),
    ],
)
def test_nodes_of_our_own_are_no_types_of_sagemaker(name: str, hint: str) -> None:
    (problem,) = problems_of(replace(CLUSTER, instance_type=name))
    assert f"is '{name}', SageMaker's name of a type; {hint}" in str(problem)


def test_a_type_whose_regions_nobody_knows_is_taken_in_any() -> None:
    cluster = replace(SAGEMAKER_CLUSTER, region="eu-west-1", zone="eu-west-1c")
    assert problems_of(replace(cluster, instance_type="ml.p3.16xlarge")) == ()
