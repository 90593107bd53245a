"""What must hold in every template and no other tool checks. A new rule is a function and a row of RULES.

A rule is a pure function of one template. tests/infra/verify/test_rules.py wants a template
that it passes and one that it does not.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipway.infra.verify.rules import (
    bakeries,
    batch,
    data,
    delivery,
    efa,
    nodes,
    pcs,
    permissions,
    sagemaker,
    traffic,
)
from slipway.infra.verify.rules import delivery as lambdas_and_budgets
from slipway.infra.verify.rules import nodes as node_groups
from slipway.infra.verify.rules import traffic as ssh_and_secrets
from slipway.infra.verify.rules.template import Rule

RULES: Mapping[str, Rule] = {
    "bakery-closed": bakeries.machines_are_closed,
    "bakery-components": bakeries.components_are_sound,
    "bakery-disks-encrypted": bakeries.disks_are_encrypted,
    "bakery-tested": bakeries.images_are_tested_and_ours,
    "batch-any-number-of-nodes": batch.any_number_of_nodes,
    "batch-groups-in-template": batch.groups_are_in_the_template,
    "batch-image-is-ours": batch.image_is_ours,
    "batch-image-never-moves": batch.image_never_moves,
    "batch-job-ends": batch.job_ends,
    "batch-memory-registers": batch.memory_registers,
    "batch-multi-node-on-demand": batch.multi_node_on_demand,
    "batch-no-secrets": batch.no_secrets_in_environment,
    "batch-not-privileged": batch.not_privileged,
    "batch-nothing-idle": batch.nothing_runs_idle,
    "batch-queue-never-blocks": batch.queue_never_blocks,
    "batch-retries-chosen": batch.retries_are_chosen,
    "batch-rights-apart": batch.rights_are_apart,
    "batch-room-for-nodes": batch.room_for_every_node,
    "batch-template-version": batch.template_version_is_explicit,
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
    "pcs-accounts": pcs.accounts_are_kept,
    "pcs-close": pcs.workers_are_close,
    "pcs-devices": pcs.devices_agree,
    "pcs-machines-named": pcs.machines_are_named,
    "pcs-nothing-idle": pcs.nothing_stays_but_the_login_node,
    "pcs-roles": pcs.roles_are_for_pcs,
    "policy-actions": permissions.actions_are_spelled_out,
    "policy-any-resource": permissions.any_resource_is_accounted_for,
    "policy-no-full-access": permissions.no_full_access,
    "sagemaker-group": sagemaker.group_lets_itself_through,
    "sagemaker-nothing-stands": sagemaker.nothing_stands,
    "sagemaker-role": sagemaker.role_is_for_this_account,
    "traffic-egress-said": traffic.egress_is_said,
    "traffic-https-out": traffic.only_https_out_to_anywhere,
    "traffic-no-internet-in": traffic.nothing_in_from_anywhere,
    "traffic-no-ssh": traffic.no_ssh,
    "trust-host-keys": ssh_and_secrets.host_keys_are_checked,
    "trust-secrets-closed": ssh_and_secrets.secrets_are_closed,
}
