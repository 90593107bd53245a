#!/usr/bin/env bash
# A NeoX of a few thousand weights, to try the road: tensor 2 × pipeline 2 × data. A node without accelerators has one
# rank, so this needs 4 nodes: sbatch --nodes 4 run.slurm ./neox_tiny.sh [data=NAME]
# With two ranks on each node there are two copies: SLIPWAY_PROCESSES_PER_NODE=2 sbatch --nodes 4 …
exec "${SLIPWAY_PYTHON:-/opt/slipway/venv/bin/python}" -m slipway.jobs.platforms.slurm.node.main train -- gpt_neox \
  size=tiny data=random tensor=2 pipeline=2 "$@"
