"""What must hold in every template and no other tool checks. A new rule is a function and a row of RULES.

A rule is a pure function of one template. tests/infra/verify/test_rules.py wants a template
that it passes and one that it does not.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipway.infra.verify.rules import (
    bakeries,
    batch_capacity,
    batch_jobs,
    data,
    delivery,
    efa,
    lambdas_and_budgets,
    node_groups,
    nodes,
    permissions,
    ssh_and_secrets,
    traffic,
)
from slipway.infra.verify.rules.template import Rule

RULES: Mapping[str, Rule] = {
    "bakery-closed": bakeries.machines_are_closed,
    "bakery-components": bakeries.components_are_sound,
    "bakery-disks-encrypted": bakeries.disks_are_encrypted,
    "bakery-tested": bakeries.images_are_tested_and_ours,
    "batch-any-number-of-nodes": batch_jobs.any_number_of_nodes,
    "batch-groups-in-template": batch_capacity.groups_are_in_the_template,
    "batch-image-is-ours": batch_jobs.image_is_ours,
    "batch-image-never-moves": batch_jobs.image_never_moves,
    "batch-job-ends": batch_jobs.job_ends,
    "batch-memory-registers": batch_jobs.memory_registers,
    "batch-multi-node-on-demand": batch_capacity.multi_node_on_demand,
    "batch-no-secrets": batch_jobs.no_secrets_in_environment,
    "batch-not-privileged": batch_jobs.not_privileged,
    "batch-nothing-idle": batch_capacity.nothing_runs_idle,
    "batch-queue-never-blocks": batch_capacity.queue_never_blocks,
    "batch-retries-chosen": batch_jobs.retries_are_chosen,
    "batch-rights-apart": batch_jobs.rights_are_apart,
    "batch-room-for-nodes": batch_capacity.room_for_every_node,
    "batch-template-version": batch_capacity.template_version_is_explicit,
    "bucket-not-public": data.buckets_refuse_the_public,
    "budget-counts": lambdas_and_budgets.budget_counts_by_our_tag,
    "budget-tells": lambdas_and_budgets.budget_tells_somebody,
    "delivery-key": delivery.keys_admit_publishers,
    "delivery-key-source": delivery.keys_ask_events_for_no_source,
    "delivery-topic": delivery.topics_admit_publishers,
    "efa-groups": efa.groups_let_themselves_through,
    "efa-interfaces": efa.interfaces_fit_the_type,
    "efa-together": efa.nodes_are_close,
    "files-encrypted": data.files_are_encrypted,
    "group-close": node_groups.nodes_are_close,
    "group-cpu-options": node_groups.no_options_where_none_are_taken,
    "group-ends-no-job": node_groups.no_deployment_ends_a_job,
    "group-one-thread": node_groups.one_thread_a_core,
    "group-template-version": node_groups.template_version_is_explicit,
    "image-tags-immutable": data.tags_never_move,
    "logs-end-encrypted": data.logs_end_and_are_encrypted,
    "lustre-steps": data.lustre_comes_in_steps,
    "node-disks-encrypted": nodes.disks_are_encrypted,
    "node-metadata-tokens": nodes.metadata_needs_tokens,
    "node-no-key-pair": nodes.no_key_pair,
    "node-no-public-address": nodes.no_public_address,
    "nothing-hidden": lambdas_and_budgets.nothing_runs_hidden,
    "policy-actions": permissions.actions_are_spelled_out,
    "policy-any-resource": permissions.any_resource_is_accounted_for,
    "policy-no-full-access": permissions.no_full_access,
    "traffic-egress-said": traffic.egress_is_said,
    "traffic-https-out": traffic.only_https_out_to_anywhere,
    "traffic-no-internet-in": traffic.nothing_in_from_anywhere,
    "traffic-no-ssh": traffic.no_ssh,
    "trust-host-keys": ssh_and_secrets.host_keys_are_checked,
    "trust-secrets-closed": ssh_and_secrets.secrets_are_closed,
}
