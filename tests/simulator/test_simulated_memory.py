"""The memory of a simulated cluster: jobs wait for it, and remote memory lets them start earlier."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import JobState
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.simulated_memory import SimulatedMemory
from tiresias.simulator.simulation import Simulation, simulate
from tiresias.simulator.simulation_rules import Rules
from tiresias.simulator.trace import Trace, TraceJob

CLUSTER = ClusterSize(4, 4, 2)
FIFO = PolicyConfig.paper(name="best_effort")
jobs = st.tuples(st.floats(0, 100), st.sampled_from([1, 2, 4, 8]), st.floats(1, 100))


def trace_of(rows: list[tuple[float, int, float]], memory: list[float] | None = None) -> Trace:
    made = [TraceJob(str(at), submit, gpus, duration) for at, (submit, gpus, duration) in enumerate(rows)]
    found = Trace.of(made)
    return replace(found, memory=np.array(memory)) if memory else found


def rules(memory: SimulatedMemory, policy: str = "best_effort") -> Rules:
    return Rules(POLICIES[policy], PolicyConfig.paper(name=policy), memory=memory)


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(jobs, min_size=1, max_size=12),
    st.sampled_from(["best_effort", "las", "fifo"]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([8.0, 20.0]),
)
def test_no_node_has_more_than_its_memory(
    rows: list[tuple[float, int, float]], policy: str, share: float, median: float
) -> None:
    memory = SimulatedMemory(64.0, median, 1.0, share)
    simulation = Simulation(trace_of(rows), CLUSTER, rules(memory, policy))
    while simulation.step():
        snapshot = simulation.observe().snapshot
        assert (snapshot.nodes.free["memory"] >= -1e-3).all()
        runs = snapshot.jobs.state != JobState.WAITING
        held = np.bincount(snapshot.allocations.node, snapshot.allocations.resources["memory"], 4)
        assert held + snapshot.nodes.free["memory"] == pytest.approx(np.full(4, 64 * 1024.0))
        remote = sum(each.remote_memory for each, run in zip(snapshot.jobs.request, runs.tolist(), strict=True) if run)
        assert remote <= 4 * 32 * 1024.0 + 1e-3
    assert simulation.done
    assert 0.0 <= simulation.outcome().memory["memory_use"] <= 1.0


def test_remote_memory_lets_a_job_start_beside_others() -> None:
    trace = trace_of([(0.0, 1, 100.0)] * 8, [48.0] * 8)
    without = simulate(trace, CLUSTER, rules(SimulatedMemory(64.0)))
    assert sorted(without.start.tolist()) == [0.0] * 4 + [100.0] * 4
    shared = simulate(trace, CLUSTER, rules(SimulatedMemory(64.0, remote_share=0.5, slowdown=1.5)))
    assert (shared.start == 0.0).sum() == 5  # 4 x 32 GB are lent, 24 GB to each
    assert shared.finish.min() == pytest.approx(150.0)


def test_the_amounts_are_the_same_with_and_without_remote_memory() -> None:
    trace = trace_of([(0.0, 8, 1.0)] * 50)
    memory = SimulatedMemory(64.0, 16.0, 1.0)
    demand = memory.demands(trace, CLUSTER)
    assert (demand == replace(memory, remote_share=0.5).demands(trace, CLUSTER)).all()
    assert (demand <= 8 * 64.0 * 4 / 16.0).all()  # fits on the empty cluster


def test_a_job_without_room_is_refused() -> None:
    with pytest.raises(UsageError, match="job 0 has 900 GB for 8 GPUs, which do not fit on 4 nodes with 64 GB"):
        simulate(trace_of([(0.0, 8, 1.0)], [900.0]), CLUSTER, rules(SimulatedMemory(64.0)))
