"""The jobs of all styles are the same, and the calibration has what a controller needs to learn from."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement

import pytest

from tests.co_location.pipeline_jobs import KINDS, calibration, workload
from tiresias.scheduler.estimates.co_located_runs import LEAST_ALONE

NAMES = [kind.name for kind in KINDS]


def test_each_style_has_the_same_jobs_at_the_same_moments() -> None:
    one, two = workload("random", 60, 2.0, 1), workload("learned", 60, 2.0, 1)
    assert [job[1:] for job in one] == [job[1:] for job in two]
    assert not {job.name for job in one} & {job.name for job in two}
    assert Counter(job.kind for job in one) == dict.fromkeys(NAMES, 20)
    assert one[0].after == 0.0
    assert [job.after for job in one] == sorted(job.after for job in one)
    assert one[-1].after == pytest.approx(59 * 2.0)
    assert [job[1:] for job in workload("random", 60, 2.0, 2)] != [job[1:] for job in one]


@pytest.mark.parametrize(("nodes", "repeats"), [(2, 1), (2, 2), (3, 1), (4, 2)])
def test_the_calibration_has_each_kind_alone_and_each_pair(nodes: int, repeats: int) -> None:
    names = [f"gpu0{number}" for number in range(1, nodes + 1)]
    rounds = calibration(names, repeats)
    jobs = [job for each in rounds for job in each]
    assert len({job.name for job in jobs}) == len(jobs)
    assert {job.node for job in jobs} == set(names)
    together = Counter(tuple(job.kind for job in each if job.node == node) for each in rounds for node in names)
    assert all(together[(kind,)] >= LEAST_ALONE for kind in NAMES)
    assert {pair: together[pair] for pair in combinations_with_replacement(NAMES, 2)} == dict.fromkeys(
        combinations_with_replacement(NAMES, 2), repeats
    )
