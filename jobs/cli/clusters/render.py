"""`slipway render`: a declared cluster in the words of another tool; each tool is a command of its own."""

from __future__ import annotations

import click

from slipway.jobs.cli.options import overrides_option
from slipway.jobs.output import print_text


@click.group()
def command() -> None:
    """Write a declared cluster as the configuration of another tool."""


@command.command()
@click.argument("cluster")
@click.option("--subnet", required=True, help="Id of the subnet that the cluster is to stand in.")
@click.option("--ami", help="Id of a custom AMI of ParallelCluster's own making. Default: its own image.")
@click.option("--file-system", help="Id of the EFS for the shared home. Default: a new one, which is kept.")
@overrides_option
def parallelcluster(
    cluster: str, subnet: str, ami: str | None, file_system: str | None, overrides: tuple[str, ...]
) -> None:
    """Write CLUSTER as a configuration of AWS ParallelCluster 3.16, to standard output.

    This is the other way to deploy a Slurm cluster, with a head node of your own in place of AWS PCS. Its
    custom AMIs are made from ours: pcluster build-image, with the baked AMI as ParentImage.

    \b
    slipway render parallelcluster trn1 --subnet subnet-0123456789abcdef0 > trn1.yaml
    pcluster create-cluster --cluster-name trn1 --cluster-configuration trn1.yaml --dryrun true
    """
    from slipway.jobs.cloud.declared import declared_cluster
    from slipway.jobs.clusters.parallelcluster import ParallelClusterPlaces, parallelcluster_config
    from slipway.jobs.words.yaml_text import to_yaml

    places = ParallelClusterPlaces(subnet_id=subnet, ami_id=ami, file_system_id=file_system)
    print_text(to_yaml(parallelcluster_config(declared_cluster(cluster, overrides), places)))
