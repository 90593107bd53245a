#!/usr/bin/env bash
# Pythia 6.9B: tensor 8 × data, on one trn1.32xlarge or more. compile.slurm and run.slurm take it.
# Arguments replace settings: sbatch --nodes 4 run.slurm ./pythia_6.9b.sh tokens=20000000000
exec "${SLIPWAY_PYTHON:-/opt/slipway/venv/bin/python}" -m slipway.jobs.platforms.slurm.node.main train -- gpt_neox \
  size=pythia-6.9b tensor=8 pipeline=1 "$@"
