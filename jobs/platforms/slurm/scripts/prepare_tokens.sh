#!/usr/bin/env bash
# Turns text into the tokens that gpt_neox trains on; each task of the array prepares a share, and the last one merges them:
#   sbatch --nodes 1 --array=0-15 run.slurm ./prepare_tokens.sh input=s3://BUCKET/text vocabulary=tokenizer.json
exec "${SLIPWAY_PYTHON:-/opt/slipway/venv/bin/python}" -m slipway.jobs.platforms.slurm.node.main train \
  --ranks-per-node 1 -- prepare_tokens "$@"
