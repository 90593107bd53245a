#!/usr/bin/env bash
# Starts train.py as one rank on each instance. On GPUs the SDK's distribution={"torch_distributed": …} does so; on
# CPUs the SDK refuses that.
set -euo pipefail
IFS=',' read -ra hosts <<<"${SM_HOSTS//[\[\]\" ]/}" # ["algo-1","algo-2"]
RANK=0
until [ "${hosts[RANK]}" = "$SM_CURRENT_HOST" ]; do RANK=$((RANK + 1)); done
export RANK WORLD_SIZE=${#hosts[@]} LOCAL_RANK=0 MASTER_ADDR=${hosts[0]} MASTER_PORT=29500
exec python train.py
