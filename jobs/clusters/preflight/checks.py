"""Lists what must be true before a deployment can work. A new check is a function and a row of CHECKS.

Checks are pure: facts are gathered before. Where AWS did not answer, a check is unknown, never ok.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slipway.infra.declare.types import Cluster
from slipway.jobs.clusters.preflight import account, images, surroundings
from slipway.jobs.clusters.preflight.facts import Facts
from slipway.jobs.clusters.preflight.verdicts import Verdict

Check = Callable[[Cluster, Facts], Verdict]

CHECKS: Mapping[str, Check] = {
    "credentials and account": account.account,
    "region enabled": account.region,
    "type offered in the zone": account.offered,
    "vCPU quota": account.quota,
    "capacity reservation": account.reservation,
    "CDK bootstrap": account.bootstrap,
    "project": surroundings.project,
    "default EBS key": surroundings.ebs_key,
    "default security group": surroundings.default_group,
    "training instances": surroundings.training_instances,
    "warm pool": surroundings.warm_pool,
    "longest training job": surroundings.longest_job,
    "training log": surroundings.training_log,
    "size of the controller": surroundings.controller_size,
    "machines that start": surroundings.machines,
    "AMI and AWS Batch": surroundings.supported_pair,
    "machine image": images.machine_image,
    "locked versions": images.versions,
    "end of support": images.support,
    "container image": images.image,
    "budget": account.budget,
    "cost allocation tag": surroundings.cost_tag,
    "alert e-mail": account.alert_email,
}
