#!/usr/bin/env bash
# slurmd runs it as root on every node before a job. One that is not fit drains with the reason, and the job goes back
# to the queue: Slurm's SchedulerParameters need nohold_on_prolog_fail, or it waits there for `scontrol release`.
exec "${SLIPWAY_PYTHON:-/opt/slipway/venv/bin/python}" -m slipway.jobs.platforms.slurm.node.main check
