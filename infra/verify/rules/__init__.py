"""What must be true of every template and no other tool checks. A new rule is a function with its name.

`checks` makes a rule of a function of one resource, `rule` of a function of the whole template.
tests/infra/verify/test_rules.py needs a template that passes it and one that does not.
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
from slipway.infra.verify.rules.template import Rule

_SUBJECTS = (bakeries, batch, data, delivery, efa, nodes, pcs, permissions, sagemaker, traffic)
RULES: Mapping[str, Rule] = {
    found.name: found for subject in _SUBJECTS for found in vars(subject).values() if isinstance(found, Rule)
}
