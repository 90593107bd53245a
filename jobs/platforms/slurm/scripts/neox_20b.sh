#!/usr/bin/env bash
# GPT-NeoX 20B: tensor 8 × pipeline 4 × data, on 4 trn1.32xlarge or more. compile.slurm and run.slurm take it.
# Arguments replace settings: sbatch --nodes 8 run.slurm ./neox_20b.sh tokens=20000000000
exec "${SLIPWAY_PYTHON:-/opt/slipway/venv/bin/python}" -m slipway.jobs.platforms.slurm.node.main train -- gpt_neox \
  size=neox-20b tensor=8 pipeline=4 "$@"
