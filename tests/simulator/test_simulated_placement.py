"""On which nodes simulated jobs run, how long they wait for better ones, and what it costs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Style
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.models import MODELS
from tiresias.simulator.outcome import Outcome
from tiresias.simulator.simulated_placement import STYLES, SimulatedPlacement
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost, Rules
from tiresias.simulator.trace import Trace, TraceJob

LAS = PolicyConfig.paper()
BLOCKERS = [(0, 3, 100, "vgg16")] * 2  # on two nodes of four GPUs: each leaves one free


def run(
    jobs: Sequence[tuple[float, int, float, str]],
    placement: SimulatedPlacement | None,
    policy: str = "best_effort",
    nodes: int = 2,
    **more: Any,
) -> Outcome:
    """(submit, GPUs, duration, model) of each; finish of each, in that order."""
    trace = Trace.of(
        [
            TraceJob(str(at), submit, gpus, duration, model=model)
            for at, (submit, gpus, duration, model) in enumerate(jobs)
        ]
    )
    rules = Rules(POLICIES[policy], LAS, by_node=placement is not None, placement=placement, **more)
    return simulate(trace, ClusterSize(nodes, 4), rules)


def test_a_model_with_large_tensors_is_slower_on_more_nodes_than_it_needs() -> None:
    fragments = SimulatedPlacement(Style.CONSOLIDATE)
    slow = run([*BLOCKERS, (1, 2, 10, "vgg16")], fragments)
    assert slow.finish[2] == pytest.approx(1 + 10 * MODELS["vgg16"].spread)
    assert run([*BLOCKERS, (1, 2, 10, "resnet50")], fragments).finish[2] == 11
    assert run([*BLOCKERS, (1, 2, 10, "vgg16")], SimulatedPlacement(Style.CONSOLIDATE, effect=False)).finish[2] == 11


def test_by_skew_it_waits_for_the_fewest_nodes_and_not_for_ever() -> None:
    jobs = [*BLOCKERS, (1, 2, 10, "vgg16"), (1, 2, 10, "resnet50")]
    found = run(jobs, SimulatedPlacement(wait_limit=200.0))
    assert found.start[3] == 1, "any two GPUs are good enough"
    assert found.start[2] == 100
    assert found.finish[2] == 110
    not_waiting = run(jobs[:3], SimulatedPlacement(wait_limit=50.0))
    assert not_waiting.start[2] == 51
    assert not_waiting.finish[2] == pytest.approx(51 + 10 * MODELS["vgg16"].spread)


def test_by_skew_others_leave_whole_nodes_to_those_who_need_them() -> None:
    jobs = [(0, 2, 50, "resnet50"), (1, 2, 50, "resnet50"), (2, 4, 10, "vgg16")]
    assert run(jobs, SimulatedPlacement()).finish[2] == 12


def test_work_is_kept_over_a_preemption_between_a_fast_and_a_slow_run() -> None:
    """It gives way to two jobs of whole nodes, and comes back beside two that leave a GPU on each node."""
    jobs = [(0, 2, 10000, "vgg16"), *[(2000, 4, 100, "resnet50")] * 2, *[(2100, 3, 20000, "resnet50")] * 2]
    found = run(jobs, SimulatedPlacement(Style.CONSOLIDATE), "las")
    assert found.preemptions.tolist() == [1, 0, 0, 0, 0]
    assert found.finish[0] == pytest.approx(2100 + 8000 * MODELS["vgg16"].spread)


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 8), st.integers(1, 60), st.sampled_from(sorted(MODELS))),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(sorted(STYLES)),
    st.sampled_from(["las", "fifo", "best_effort"]),
)
def test_every_job_finishes_never_faster_than_on_the_fewest_nodes(
    jobs: list[tuple[int, int, int, str]], style: str, policy: str
) -> None:
    found = run(
        [(float(s), g, float(d), m) for s, g, d, m in jobs],
        SimulatedPlacement.named(style),
        policy,
        cost=Cost(resume=2.0),
    )
    order = sorted(range(len(jobs)), key=lambda at: (jobs[at][0], at))
    durations = np.array([jobs[at][2] for at in order], float)
    worst = max(model.spread for model in MODELS.values())
    assert (found.finish - found.start >= durations - 1e-6).all()
    assert found.finish.max() <= 50 + durations.sum() * worst + 2.0 * found.preemptions.sum() + 300.0 * len(jobs) + 1e-6


def test_without_large_tensors_any_style_is_the_pool() -> None:
    jobs = [(float(at % 7), 1 + at % 4, 10.0 + at, "resnet50") for at in range(30)]
    pool = run(jobs, None, "las")
    for style in STYLES:
        assert (run(jobs, SimulatedPlacement.named(style), "las").finish == pool.finish).all()


def test_where_nodes_are_not_simulated_no_job_is_placed_on_any() -> None:
    with pytest.raises(UsageError, match="simulation by node"):
        Rules(POLICIES["las"], LAS, placement=SimulatedPlacement())
