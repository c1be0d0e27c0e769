"""Moves everything from an aggregator that ends to others: by the rules where they allow it, else to the least busy ones."""

from __future__ import annotations

from collections.abc import Sequence

from tiresias.services.parameter_service.assignment.aggregator_load import AggregatorLoad
from tiresias.services.parameter_service.assignment.assignment_rules import AssignmentRules
from tiresias.services.parameter_service.assignment.job_work import JobWork
from tiresias.services.parameter_service.assignment.repacking import emptied_into


def evacuated(
    load: AggregatorLoad, others: Sequence[AggregatorLoad], jobs: dict[str, JobWork], rules: AssignmentRules
) -> list[AggregatorLoad] | None:
    """Return copies of the other loads with the tensors of `load`; None where there is no other one.

    A job may lose more than the limit where the rules allow no place: its measured loss is then reverted like any other.
    """
    if not load.parts:
        return list(others)
    if not others:
        return None
    kept = emptied_into(load, others, jobs, rules)
    return _spread(load, others, jobs) if kept is None else kept


def _spread(load: AggregatorLoad, others: Sequence[AggregatorLoad], jobs: dict[str, JobWork]) -> list[AggregatorLoad]:
    copies = [each.copy() for each in others]
    for job, part in sorted(load.parts.items(), key=lambda each: (-each[1].work_s, each[0])):
        for tensor in sorted(part.tensors, key=lambda name: (-part.tensors[name], name)):
            min(copies, key=lambda each: (each.busy, each.number)).put(jobs[job], tensor)
    return copies
