#!/usr/bin/env bash
# slurmd runs this as root on every node before a job. An unfit node drains with the reason, and the job goes back to
# the queue. Slurm's SchedulerParameters need nohold_on_prolog_fail, or the job waits there for `scontrol release`.
exec "${SLIPWAY_PYTHON:-/opt/slipway/venv/bin/python}" -m slipway.jobs.platforms.slurm.node.main check
