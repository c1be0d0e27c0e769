"""Packs all jobs anew on as few aggregators as it finds: pseudocode 3 in several orders of jobs, then emptied aggregators.

The pseudocode alone assigns jobs as they arrive, and never moves a tensor. Tensors migrate while training goes on, so a service may
move what lies badly.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

from tiresias.services.parameter_service.assignment.aggregator_load import AggregatorLoad
from tiresias.services.parameter_service.assignment.assignment_rules import AssignmentRules
from tiresias.services.parameter_service.assignment.best_fit import TensorPlacer
from tiresias.services.parameter_service.assignment.execution_cycle import TOLERANCE
from tiresias.services.parameter_service.assignment.job_work import JobWork

ORDERS = 12  # random ones, after the sorted ones
_SEED = 0

Jobs = dict[str, JobWork]


def repacked(jobs: Jobs, rules: AssignmentRules, orders: int = ORDERS) -> list[AggregatorLoad] | None:
    """Return the loads of the fewest aggregators that were found, numbered from 0; None where no order keeps the rules.

    O(orders x tensors x aggregators).
    """
    best: list[AggregatorLoad] | None = None
    least = fewest_possible(jobs, rules)
    for order in _orders(list(jobs.values()), orders):
        loads = _packed(order, rules)
        if loads is None or (best is not None and len(loads) > len(best) + 1):
            continue
        loads = emptied(loads, jobs, rules)
        if best is None or len(loads) < len(best):
            best = loads
        if len(best) <= least:
            break
    return best


def fewest_possible(jobs: Jobs, rules: AssignmentRules) -> int:
    """Return a number of aggregators that no assignment is below.

    A job that loses less than the limit runs at least (1 - limit) / D times a second, and fills its work times that.
    """
    filled = sum(work.aggregators for work in jobs.values()) * (1 - rules.loss_limit)
    spread = max((work.work_s / rules.burst_s(work) for work in jobs.values() if work.work_s), default=0.0)
    return max(math.ceil(filled - TOLERANCE), math.ceil(spread - TOLERANCE), 1 if jobs else 0)


def emptied(
    loads: Sequence[AggregatorLoad], jobs: Jobs, rules: AssignmentRules, tries: int | None = None
) -> list[AggregatorLoad]:
    """Return the loads after aggregators have been emptied into the others, without new ones, from the least loaded on.

    O(aggregators x tensors x aggregators).

    Args:
        loads: The aggregators.
        jobs: The jobs on them.
        rules: The limits.
        tries: Aggregators that are tried before the search for one more that can be emptied ends; 1 in the thesis, None: all.
    """
    loads = list(loads)
    while True:
        for load in sorted(loads, key=lambda each: (each.busy, each.number))[:tries]:
            others = emptied_into(load, [each for each in loads if each is not load], jobs, rules)
            if others is not None:
                loads = others
                break
        else:
            return loads


def emptied_into(
    load: AggregatorLoad, others: Sequence[AggregatorLoad], jobs: Jobs, rules: AssignmentRules
) -> list[AggregatorLoad] | None:
    """Return copies of the other loads with the tensors of `load`; None where one of its tensors fits nowhere."""
    changed: dict[int, AggregatorLoad] = {}
    for job, part in sorted(load.parts.items(), key=lambda each: (-each[1].work_s, each[0])):
        tensors = sorted(part.tensors, key=lambda tensor: (-part.tensors[tensor], tensor))
        if not TensorPlacer(jobs[job], rules, others, copies=changed).put_all(tensors):
            return None
    return [changed.get(each.number, each) for each in others]


def _orders(works: Sequence[JobWork], count: int) -> Iterator[list[JobWork]]:
    """Yield orders of the jobs: by iteration, by work, and random ones."""
    keys: tuple[Callable[[JobWork], float], ...] = (
        lambda work: -work.iteration_s,
        lambda work: work.iteration_s,
        lambda work: -work.aggregators,
        lambda work: -max(work.tensors.values()) / work.iteration_s,
    )
    for key in keys:
        yield sorted(works, key=lambda work: (key(work), work.job))
    shuffled, chance = sorted(works, key=lambda work: work.job), random.Random(_SEED)
    for _ in range(count):
        chance.shuffle(shuffled)
        yield list(shuffled)


def _packed(order: Sequence[JobWork], rules: AssignmentRules) -> list[AggregatorLoad] | None:
    """Assign the jobs in this order by pseudocode 3, with as many aggregators as it takes."""
    loads: list[AggregatorLoad] = []

    def add() -> AggregatorLoad:
        loads.append(AggregatorLoad(len(loads)))
        return loads[-1]

    return loads if all(TensorPlacer(work, rules, list(loads), add).put_all(work.by_work) for work in order) else None
