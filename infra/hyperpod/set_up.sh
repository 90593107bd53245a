#!/usr/bin/env bash
# Makes a node of HyperPod one of Slipway's: the same steps that bake a machine image for Slurm, what the cluster told
# its nodes, and on the controller what Slurm runs around a job. HyperPod's own Slurm and its files stay as they are.
set -euo pipefail
folder="$(cd "$(dirname "$0")" && pwd)"
resources="${SAGEMAKER_RESOURCE_CONFIG_PATH:-/opt/ml/config/resource_config.json}"
slurm_conf="${SLURM_CONF:-/opt/slurm/etc/slurm.conf}"
etc="${SLIPWAY_ETC:-/etc/slipway}"

# A new node's name server is restarted while this runs, and a package index may be out of reach for a moment.
run_step() {
  local try
  for try in 1 2 3; do
    echo "slipway: $(basename "$1")"
    if bash "$1"; then
      return 0
    fi
    echo "slipway: $(basename "$1") failed, try $try of 3" >&2
    sleep "${SLIPWAY_PAUSE:-20}"
  done
  return 1
}

# Prints the name of the instance group that has this node's address.
own_group() {
  python3 - "$resources" <<'PYTHON'
import json
import subprocess
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    groups = json.load(file)["InstanceGroups"]
own = subprocess.run(["hostname", "--all-ip-addresses"], capture_output=True, text=True, check=True).stdout.split()
names = [
    group["Name"] for group in groups for node in group["Instances"] if node.get("CustomerIpAddress") in own
]
if not names:
    sys.exit(f"slipway: {sys.argv[1]} names no instance with the addresses {', '.join(own)}")
print(names[0])
PYTHON
}

# Adds the settings that HyperPod's slurm.conf does not have. One that it has is HyperPod's to decide, and is said.
add_settings() {
  local line
  while IFS= read -r line; do
    if grep --quiet --ignore-case "^${line%%=*}=" "$slurm_conf"; then
      echo "slipway: $slurm_conf has ${line%%=*} already, and $line is left out" >&2
    else
      echo "$line" >>"$slurm_conf"
    fi
  done <"$folder/slurm.conf"
  scontrol reconfigure
}

for step in "$folder"/steps/*.sh; do
  run_step "$step"
done
install -d -m 0755 "$etc"
region="$(cat "$folder/region")"
aws ssm get-parameter --region "$region" --name "$(cat "$folder/node-parameter")" --query Parameter.Value \
  --output text >"$etc/node.json"
PATH="/opt/slurm/bin:$PATH"
group="$(own_group)"
if [[ "$group" == "$(cat "$folder/controller-group")" ]]; then
  add_settings
fi
echo 'slipway: this node is set up'
