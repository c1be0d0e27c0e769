"""Jobs that completed before a simulation: which ones a policy learns from, and when."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.completed_jobs import NO_JOBS_COMPLETED, Completed
from tiresias.scheduler.rank.adaptive import Adaptive
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.rank.policy import Policy, Rows
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.history import completed_jobs
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Rules
from tiresias.simulator.trace import Trace, TraceJob

CONFIG = replace(PolicyConfig.paper(), preemption_cost=0.0)
PAST = Trace.of(
    TraceJob(str(row), 10.0 * row, 1 + row % 2, 1000.0 - 20 * row, f"u{row}", "v", "m") for row in range(40)
)


class Observed(Adaptive):
    """The policy `adaptive`, which notes the completed jobs of each fit."""

    def __init__(self) -> None:
        super().__init__()
        self.fits: list[Completed] = []

    def fitted(self, completed: Completed, there: Rows, cluster: int = 0) -> Policy:
        self.fits.append(completed)
        self.refit_at = len(completed) + 2
        return self


def one_by_one(count: int) -> Trace:
    return Trace.of(TraceJob(str(row), 100.0 * row, 1, 50.0, "later", "", "") for row in range(count))


def test_jobs_complete_in_the_order_of_their_ends_without_waits() -> None:
    found = completed_jobs(
        Trace.of([TraceJob("1", 0.0, 2, 500.0, "a", "v", "m"), TraceJob("2", 90.0, 4, 10.0, "b", "w", "n")])
    )
    assert found.gpus.tolist() == [4, 2]
    assert found.service.tolist() == [40.0, 1000.0]
    assert found.submit.tolist() == [90.0, 0.0]
    assert (found.user, found.vc, found.model) == (("b", "a"), ("w", "v"), ("n", "m"))


def test_a_policy_learns_from_the_history_at_the_first_event_and_again_as_jobs_complete() -> None:
    policy = Observed()
    simulate(one_by_one(5), ClusterSize(1, 4), Rules(policy, CONFIG, history=completed_jobs(PAST)))
    assert [len(each) for each in policy.fits] == [40, 42, 44]
    last = policy.fits[-1]
    assert last.user[:40] == completed_jobs(PAST).user
    assert last.user[40:] == ("later",) * 4
    assert last.service[40:].tolist() == [50.0] * 4


def test_without_history_it_learns_from_the_first_completion_on() -> None:
    policy = Observed()
    simulate(one_by_one(5), ClusterSize(1, 4), Rules(policy, CONFIG))
    assert [len(each) for each in policy.fits] == [1, 3, 5]
    assert NO_JOBS_COMPLETED.followed_by(policy.fits[0]) is policy.fits[0]


@pytest.mark.parametrize(("known", "first"), [(True, "long"), (False, "short")])
def test_what_ended_before_decides_which_runs_first(known: bool, first: str) -> None:
    """In the past jobs of two GPUs took a second and jobs of one GPU a day: with that, two GPUs go first."""
    past = Trace.of(TraceJob(str(row), 0.0, 1 + row % 2, 1.0 if row % 2 else 86_400.0) for row in range(200))
    now = Trace.of([TraceJob("0", 0.0, 2, 100.0), TraceJob("long", 1.0, 2, 100.0), TraceJob("short", 2.0, 1, 100.0)])
    history = completed_jobs(past) if known else NO_JOBS_COMPLETED
    rules = Rules(POLICIES["adaptive"], replace(CONFIG, min_run=1000.0), history=history)
    start = simulate(now, ClusterSize(1, 2), rules).start
    assert start[["0", "long", "short"].index(first)] == pytest.approx(np.min(start[1:]))
