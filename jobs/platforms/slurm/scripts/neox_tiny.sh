#!/usr/bin/env bash
# A NeoX of a few thousand weights, to try the road: tensor 2 × pipeline 2 × data. On nodes without accelerators each
# has one rank, so it wants 4 of them: sbatch --nodes 4 run.slurm ./neox_tiny.sh [data=NAME]
# Two ranks a node make it two copies: SLIPWAY_PROCESSES_PER_NODE=2 sbatch --nodes 4 …
exec "${SLIPWAY_PYTHON:-/opt/slipway/venv/bin/python}" -m slipway.jobs.platforms.slurm.node.main train -- gpt_neox \
  size=tiny data=random tensor=2 pipeline=2 "$@"
