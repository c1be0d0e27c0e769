"""The number of aggregators of the heuristic against the exact optimum, on 300 small cases."""

from __future__ import annotations

import pytest

from tests.services.parameter_service.assignment.exact_packing import fewest_aggregators
from tests.services.parameter_service.assignment.profiles import PSEUDOCODE, check_loads, random_jobs
from tiresias.services.parameter_service.assignment.aggregator_pool import AggregatorPool
from tiresias.services.parameter_service.assignment.assignment_rules import AssignmentRefused, AssignmentRules
from tiresias.services.parameter_service.assignment.repacking import fewest_possible

CASES = 300
MOST_BEYOND = 0.02


def packed(seed: int, rules: AssignmentRules) -> tuple[int, int] | None:
    """Return the aggregators after arrivals and one scaling, and the fewest possible; None where a job is refused."""
    jobs, pool = random_jobs(seed), AggregatorPool(rules, most=99)
    try:
        for work in jobs.values():
            pool.arrive(work)
    except AssignmentRefused:
        return None
    pool.scale()
    check_loads(list(pool.loads.values()), jobs, rules)
    found, bound = len(pool.loads), fewest_possible(jobs, rules)
    assert bound <= found
    return found, found if found == bound else fewest_aggregators(jobs, rules, found)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "rules", [pytest.param(PSEUDOCODE, marks=pytest.mark.long), AssignmentRules()], ids=["pseudocode", "bursts"]
)
def test_the_heuristic_is_within_two_percent_of_the_optimum(rules: AssignmentRules) -> None:
    cases = [found for seed in range(CASES) if (found := packed(seed, rules))]
    assert len(cases) > 0.95 * CASES
    found, fewest = (sum(column) for column in zip(*cases, strict=True))
    print(f"{len(cases)} cases: {found} aggregators, the fewest are {fewest}")
    assert fewest <= found <= (1 + MOST_BEYOND) * fewest
