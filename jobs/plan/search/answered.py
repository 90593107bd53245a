"""The plan as a user of Python gets it: it explains its choices, and compares itself with another."""

from __future__ import annotations

from dataclasses import dataclass, fields

from slipway.jobs.plan.search.diff import PlanDiff, diff
from slipway.jobs.plan.search.explain import ModeExplanation, explain
from slipway.jobs.plan.search.model import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredPlan(Plan):
    @classmethod
    def of(cls, plan: Plan) -> AnsweredPlan:
        return cls(**{field.name: getattr(plan, field.name) for field in fields(Plan)})

    def explain(self, job: str) -> ModeExplanation:
        """Say why a job has its mode, and what the next best would cost."""
        return explain(self, job)

    def diff(self, earlier: Plan) -> PlanDiff:
        """Say what is otherwise than in an earlier plan."""
        return diff(self, earlier)
