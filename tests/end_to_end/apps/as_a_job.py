"""A job that tries to become root on its node: first it prints which users and services it reaches.

The test of jobs on the deployed c6i runs it on a host.
"""

import json
import os
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

from botocore.exceptions import ClientError

from slipway.jobs.cloud.aws import client, reader
from slipway.jobs.platforms.mpi.node.job_credentials import become_cluster_user
from slipway.jobs.platforms.mpi.node.setting import node_paths, read_setup

where = node_paths()
setup = read_setup(where)
own = reader("sts", setup.region).get_caller_identity()["Arn"]
node_role = own.replace(":sts:", ":iam:").replace("assumed-role", "role").rpartition("/")[0]
assert "SecretString" in reader("secretsmanager", setup.region).get_secret_value(SecretId=setup.secret_arn)
server = subprocess.check_output(["pgrep", "-f", "slipway-node serve"], text=True).split()[0]
become_cluster_user()


def fetch(address: str, method: str = "GET") -> object:
    asked = urllib.request.Request(address, method=method)  # noqa: S310  # http, as written below
    return urllib.request.urlopen(asked, timeout=5).read()  # noqa: S310


def read(path: str | Path) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(1)


IMDS = "http://169.254.169.254"
ROLES = "latest/meta-data/iam/security-credentials/"
tries: dict[str, Callable[[], object]] = {
    "a token of the metadata service": lambda: fetch(f"{IMDS}/latest/api/token", "PUT"),
    "the node's credentials without a token": lambda: fetch(f"{IMDS}/{ROLES}"),
    "the metadata that only cloud-init reads": lambda: fetch(f"{IMDS}:8773/{ROLES}"),
    "the cluster's secret": lambda: reader("secretsmanager", setup.region).get_secret_value(
        SecretId=setup.secret_arn
    ),
    "the node's role": lambda: client("sts", setup.region).assume_role(
        RoleArn=node_role, RoleSessionName="job"
    ),
    "the host's key": lambda: read(where.keys / "host/ssh_host_ed25519_key"),
    "the authority's key": lambda: read(where.keys / "authority"),
    "what slipway-node was told": lambda: read(f"/proc/{server}/environ"),
    "what slipway-node has in memory": lambda: read(f"/proc/{server}/mem"),
    "root": lambda: os.setuid(0),
}
said = {"role": reader("sts", setup.region).get_caller_identity()["Arn"]}
for name, attempt in tries.items():
    try:
        attempt()
        said[name] = "open"
    except ClientError as error:
        said[name] = error.response["Error"]["Code"]
    except OSError:
        said[name] = "closed"
reader("s3", setup.region).list_objects_v2(Bucket=setup.bucket, Prefix="jobs/")
print(json.dumps(said))
