"""Imitates the agent of AWS PCS on a node: `agent.py register CLUSTER REGION`, then `agent.py start`.

Like the agent, it registers the instance before the scripts of user data run, and starts Slurm's daemon
after them. If it fails, it turns the instance off, as the agent's bootstrap does. What it leaves out:
- how an instance proves itself: AWS documents no bootstrap id, and the instance's own id is taken for it;
- auth/slurm and sackd of Slurm 24.11: the cluster's secret is munge's key, and a login node runs slurmd, too;
- Slurm at /opt/aws/pcs: where the image has none, Debian's is started, of another version than the cluster's;
- the scripts of node lifecycle actions at later boots, and those at HTTPS addresses;
- its log in /var/log/amazon/pcs: it prints where cloud-init does.
It runs by the interpreter of our machine images, which has botocore; nothing else of ours is there.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

STATE = Path("/var/lib/aws-pcs/registered.json")
MUNGE_KEY = Path("/etc/munge/munge.key")
UNITS = Path("/etc/systemd/system")
METADATA = "169.254.169.254"
FOLDERS = ("/opt/aws/pcs/scheduler/slurm-{release}/sbin", "/usr/sbin")
MOST_TRIES = 5
SLURMD = """\
[Unit]
Description=Slurm node daemon of an AWS PCS cluster
Requires=munge.service
After=munge.service network-online.target remote-fs.target

[Service]
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
KillMode=process
LimitNOFILE=131072
LimitMEMLOCK=infinity
LimitSTACK=infinity
Delegate=yes
TasksMax=infinity

[Install]
WantedBy=multi-user.target
"""


class Failed(Exception):
    """Says in one line why this node cannot join."""


def main(words: Sequence[str]) -> int:
    try:
        if words[0] == "register":
            register(*words[1:])
        else:
            start()
    except (Failed, OSError, subprocess.CalledProcessError) as problem:
        print(f"pcs-agent: {words[0]} failed, and the instance turns itself off: {problem}", flush=True)
        has_systemd = Path("/run/systemd/system").is_dir()
        subprocess.run(["systemctl", "poweroff"] if has_systemd else ["kill", "-TERM", "1"], check=False)
        return 1
    return 0


def register(cluster: str, region: str) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "300"}
    token = ask_metadata("PUT", "/latest/api/token", lifetime)
    instance = ask_metadata("GET", "/latest/meta-data/instance-id", {"X-aws-ec2-metadata-token": token})
    client = _client("pcs", region)
    try:
        answer = client.register_compute_node_group_instance(clusterIdentifier=cluster, bootstrapId=instance)
    except (BotoCoreError, ClientError) as error:
        raise Failed(f"{instance} cannot register with {cluster}: {error}") from error
    answer.pop("ResponseMetadata", None)
    STATE.parent.mkdir(parents=True, exist_ok=True)
    STATE.touch(mode=0o600)
    STATE.write_text(json.dumps({**answer, "region": region}), encoding="utf-8")
    print(f"pcs-agent: {instance} is node {answer['nodeID']} of {answer.get('clusterName', cluster)}")


def start() -> None:
    if not STATE.exists():
        raise Failed("this instance has not registered")
    given = json.loads(STATE.read_text(encoding="utf-8"))
    run_stage("nodeBootstrapped", given)
    MUNGE_KEY.unlink(missing_ok=True)
    MUNGE_KEY.touch(mode=0o400)
    shutil.chown(MUNGE_KEY, "munge", "munge")
    MUNGE_KEY.write_bytes(base64.b64decode(given["sharedSecret"]))
    start_daemons(slurmd(given), f"slurmd-{release(given)}.service")  # named by AWS's installer
    run_stage("nodeReady", given)
    print(f"pcs-agent: slurmd of node {given['nodeID']} runs", flush=True)


def slurmd(given: Mapping[str, Any]) -> list[str]:
    """Return slurmd's command: its configuration comes from the controller; each start is a boot."""
    path = os.pathsep.join(folder.format(release=release(given)) for folder in FOLDERS)
    program = shutil.which("slurmd", path=path)
    if program is None:
        raise Failed(f"slurmd is in none of {path}: the machine image has no Slurm")
    controller = next(endpoint for endpoint in given["endpoints"] if endpoint["type"] == "SLURMCTLD")
    address = f"{controller['privateIpAddress']}:{controller['port']}"
    return [program, "-D", "-s", "-b", "-N", given["nodeID"], "--conf-server", address]


def release(given: Mapping[str, Any]) -> str:
    return ".".join(str(given.get("schedulerVersion", "")).split(".")[:2])


def start_daemons(command: Sequence[str], unit: str) -> None:
    if Path("/run/systemd/system").is_dir():
        (UNITS / unit).write_text(SLURMD.format(command=" ".join(command)), encoding="utf-8")
        run("systemctl", "daemon-reload")
        run("systemctl", "enable", "--now", "--quiet", "munge.service", unit)
        return
    # A host whose boot is imitated has no systemd; both daemons fork into the background themselves.
    for path in ("/run/munge", "/var/log/munge", "/var/lib/munge"):
        Path(path).mkdir(parents=True, exist_ok=True)
        shutil.chown(path, "munge", "munge")
    run("setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged")
    run(*(word for word in command if word != "-D"))


def run_stage(name: str, given: Mapping[str, Any]) -> None:
    stages = (given.get("nodeLifecycleActions") or {}).get("stages") or {}
    for action in stages.get(name) or ():
        problem = run_action(action, given["region"])
        if not problem:
            continue
        print(f"pcs-agent: {name} '{action['name']}': {problem}", flush=True)
        if action.get("onError", "TERMINATE") == "TERMINATE":
            raise Failed(f"lifecycle action '{action['name']}' failed: {problem}")
        if action["onError"] == "STOP_SEQUENCE":
            return


def run_action(action: Mapping[str, Any], region: str) -> str:
    """Return why the script failed; "" if it did not."""
    from botocore.exceptions import BotoCoreError, ClientError

    source = action["scriptSource"]
    scheme, _, place = source["scriptLocation"].partition("://")
    if scheme != "s3":
        return f"cannot read {source['scriptLocation']}: scripts must be in S3"
    bucket, _, key = place.partition("/")
    version = {"VersionId": source["s3VersionId"]} if source.get("s3VersionId") else {}
    try:
        text = _client("s3", region).get_object(Bucket=bucket, Key=key, **version)["Body"].read()
    except (BotoCoreError, ClientError) as error:
        return f"cannot read {source['scriptLocation']}: {error}"
    wanted, found = source.get("checksum"), hashlib.sha256(text).hexdigest()
    if wanted and wanted != found:
        return f"{source['scriptLocation']} has the checksum {found}, and not {wanted}"
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script")
        script.write_bytes(text)
        script.chmod(0o700)
        ended = subprocess.run([script, *action.get("arguments", ())], check=False)
    return f"ended with {ended.returncode}" if ended.returncode else ""


def ask_metadata(method: str, path: str, headers: Mapping[str, str]) -> str:
    connection = http.client.HTTPConnection(METADATA, timeout=10)
    connection.request(method, path, headers=dict(headers))
    answer = connection.getresponse()
    said = answer.read().decode()
    if answer.status != http.client.OK:
        raise Failed(f"the instance's metadata answers {path} with {answer.status}")
    return said


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def _client(service: str, region: str) -> Any:
    from botocore.config import Config
    from botocore.session import get_session

    retries = {"total_max_attempts": MOST_TRIES, "mode": "standard"}
    return get_session().create_client(service, region_name=region, config=Config(retries=retries))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
