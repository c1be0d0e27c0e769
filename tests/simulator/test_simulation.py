"""What the simulator does with a few jobs, by hand and as in the paper. test_properties.py has the rules that always hold."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.completed_jobs import Completed
from tiresias.scheduler.estimates.distribution import Distribution
from tiresias.scheduler.model import Floats
from tiresias.scheduler.rank.continuous_gittins import ContinuousGittins
from tiresias.scheduler.rank.las import Las
from tiresias.scheduler.rank.policies import CLAIRVOYANT, POLICIES
from tiresias.scheduler.rank.policy import Policy, Rows
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost, Rules
from tiresias.simulator.trace import Trace, TraceJob

PAPER = PolicyConfig.paper()
LAS = POLICIES["las"]


def trace(*jobs: tuple[float, int, float]) -> Trace:
    """(submit, GPUs, duration)"""
    return Trace.of(TraceJob(str(row), *job) for row, job in enumerate(jobs, start=1))


FIGURE_7 = trace((0, 2, 2), (0, 1, 8), (0, 2, 6))


UNIT = 1.0  # the scheduling interval of Figure 7


def finishes(policy: Policy, **rules: Any) -> list[float]:
    finish: list[float] = simulate(FIGURE_7, ClusterSize(1, 2), Rules(policy, PAPER, **rules)).finish.tolist()
    return finish


def test_figure_7_srsf() -> None:
    """Mean JCT 28/3 = 9.33: every order in which job 1 is first and no job is interrupted."""
    assert finishes(CLAIRVOYANT["srsf"]) in ([2.0, 16.0, 10.0], [2.0, 10.0, 16.0])


def test_figure_7_las() -> None:
    """Mean JCT 35/3 = 11.67."""
    assert sum(finishes(POLICIES["continuous_las"], interval=UNIT)) == 35.0


def test_figure_7_las_in_queues_of_a_unit() -> None:
    """The same from the discretized policy. No job starts a second time within a queue, so that the order of first starts is that
    of the indexes, by which the paper breaks ties."""
    continuous = replace(PAPER, thresholds=tuple(map(float, range(1, 20))), in_queue_order="first_start")
    outcome = simulate(FIGURE_7, ClusterSize(1, 2), Rules(LAS, continuous, interval=UNIT))
    assert outcome.finish.sum() == 35.0


def test_figure_7_gittins_by_the_printed_formula() -> None:
    """Mean JCT 28/3 = 9.33. In the distribution of appendix C, services of 4, 8 and 12, more service is nearer to an end: the
    supremum of pseudocode 1 rises from 1/8 over 1/6 to 1/4, so that a job that has begun is never interrupted. Before, all are
    equal and the index of the job decides."""
    known = Distribution([4.0, 8.0, 12.0])
    assert known.best(np.array([0.0, 4.0, 8.0])) == pytest.approx([1 / 8, 1 / 6, 1 / 4])
    assert finishes(ContinuousGittins(known.best), interval=UNIT) == [2.0, 10.0, 16.0]


def test_figure_7_gittins_by_the_authors_values() -> None:
    """Mean JCT 10.0, as in the paper. The index values of the authors' slides are not those of the printed formula: they fall
    with the service, 0.25 from 0, 0.2 from 4 and 0.125 from 8, so job 3 preempts job 2 at a service of 4."""

    def authors(attained: Floats) -> Floats:
        indexes: Floats = np.array([0.25, 0.2, 0.125])[np.searchsorted([4.0, 8.0], attained, side="right")]
        return indexes

    assert finishes(ContinuousGittins(authors), interval=UNIT) == [2.0, 12.0, 16.0]


def test_las_by_hand() -> None:
    """One node of 2 GPUs, threshold 20 GPU-s. Job 1 sinks at 10 s; job 2 comes at 15 s and takes its GPUs at once, with cost 0."""
    config = replace(PAPER, thresholds=(20.0,))
    outcome = simulate(trace((0, 2, 100), (15, 1, 5), (16, 1, 30)), ClusterSize(1, 2), Rules(LAS, config))
    # Job 3 sinks at 36 s, when job 1, which was preempted, is ahead of it in the lower queue.
    assert outcome.preemptions.tolist() == [1, 0, 1]
    assert outcome.start.tolist() == [0.0, 15.0, 16.0]
    assert outcome.finish.tolist() == [121.0, 20.0, 131.0]


def test_a_preempted_job_holds_its_gpus_while_it_leaves() -> None:
    config = replace(PAPER, thresholds=(20.0,))
    outcome = simulate(trace((0, 2, 100), (15, 2, 5)), ClusterSize(1, 2), Rules(LAS, config, cost=Cost(pause=3.0)))
    assert outcome.start.tolist() == [0.0, 18.0]
    assert outcome.finish.tolist() == [15 + 3 + 5 + 85, 23.0]


def test_fifo_and_best_effort_by_hand() -> None:
    jobs = trace((0, 3, 10), (1, 2, 10), (2, 1, 10))
    fifo = simulate(jobs, ClusterSize(1, 4), Rules(POLICIES["fifo"], PAPER))
    assert fifo.start.tolist() == [0.0, 10.0, 10.0]
    best_effort = simulate(jobs, ClusterSize(1, 4), Rules(POLICIES["best_effort"], PAPER))
    assert best_effort.start.tolist() == [0.0, 10.0, 2.0]


def test_starving_job_is_promoted() -> None:
    """Short jobs keep both GPUs busy from 20 s on; job 1 has run 10 s when it is preempted, so with knob 2 it is back at 40 s."""
    jobs = trace((0, 2, 50), *((20.0 + 5 * n, 2, 5) for n in range(40)))
    config = replace(PAPER, thresholds=(30.0,))
    starves = simulate(jobs, ClusterSize(1, 2), Rules(LAS, config))
    helped = simulate(jobs, ClusterSize(1, 2), Rules(LAS, replace(config, promote_knob=1.0)))
    assert starves.finish[0] == 250.0
    assert helped.finish[0] < 150.0


def test_time_sharing_by_hand() -> None:
    """A large and a small job in turn, 300 s each; the third one comes within a turn and waits for the next although it would
    fit beside the small one only. At 600 s it and the large one have waited, the large one longer."""
    jobs = trace((0, 4, 400), (0, 2, 400), (350, 3, 100))
    outcome = simulate(jobs, ClusterSize(1, 4), Rules(POLICIES["time_sharing"], PAPER))
    assert outcome.start.tolist() == [0.0, 300.0, 700.0]
    # 0-300 job 1; 300-600 job 2; 600-700 the last of job 1; from 700 on job 3, which came before job 2 was displaced; then job 2
    assert outcome.finish.tolist() == [700.0, 900.0, 800.0]
    assert outcome.preemptions.tolist() == [1, 1, 0]


class Learner(Las):
    """Learns thresholds: what it did with how many jobs is on record."""

    def __init__(self, seen: list[tuple[int, float]], refit_at: float = 1) -> None:
        self._seen, self.refit_at = seen, refit_at

    def fitted(self, completed: Completed, there: Rows, cluster: int = 0) -> Learner:
        self._seen.append((len(completed), float(completed.service.sum())))
        assert len(completed.user) == len(completed.vc) == len(completed.model) == len(completed.gpus)
        return Learner(self._seen, 3 * len(completed))


def test_a_policy_learns_at_the_moments_it_names() -> None:
    """After 1, 3 and 9 of ten jobs, each of which holds 2 GPUs for 5 s, the preempted one for 2 s more."""
    seen: list[tuple[int, float]] = []
    jobs = trace(*((10.0 * n, 2, 5) for n in range(8)), (100, 2, 5), (102, 2, 1))
    config = replace(PAPER, thresholds=(4.0,))
    outcome = simulate(jobs, ClusterSize(1, 2), Rules(Learner(seen), config, cost=Cost(resume=2.0)))
    assert seen == [(1, 10.0), (3, 30.0), (9, 82.0)]
    assert outcome.preemptions.tolist() == [0] * 8 + [1, 0]
    plain = simulate(jobs, ClusterSize(1, 2), Rules(LAS, config, cost=Cost(resume=2.0)))
    assert (outcome.finish == plain.finish).all()


def test_nothing_is_learned_by_those_who_know() -> None:
    assert math.isinf(ContinuousGittins(Distribution([1.0]).best).refit_at)


def test_a_preemption_while_a_job_resumes_costs_what_it_took() -> None:
    """Job 1 resumes for 10 s when job 3 comes after 4 of them: 14 s in all are lost, on 2 GPUs."""
    jobs = trace((0, 2, 50), (10, 2, 5), (19, 2, 5))
    config = replace(PAPER, thresholds=(20.0,))
    outcome = simulate(jobs, ClusterSize(1, 2), Rules(LAS, config, cost=Cost(resume=10.0)))
    assert outcome.finish.tolist() == [74.0, 15.0, 24.0]
    assert outcome.overhead == 2 * 14.0
