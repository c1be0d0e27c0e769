"""The stepping interface for learned placements: the simulator's own events and speeds, everything from the seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import JobState
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator import (
    ClusterSize,
    EventKind,
    PlacementEnvironment,
    PlacementStep,
    PlacementWorkload,
    Rules,
    SimulatedContention,
    Simulation,
    Trace,
    TraceJob,
    network_of,
)
from tiresias.simulator.contention.simulated_contention import DEFAULT_INTERFERENCE
from tiresias.simulator.simulated_placement import STYLES, SimulatedPlacement

CLUSTERS = {name: ClusterSize.of_network(network_of(name)) for name in ("fat_tree:2", "fat_tree:4", "bcube:2,1")}
CLUSTERS["no network"] = ClusterSize(4, 4, 0, 2)
BOTH = SimulatedContention(DEFAULT_INTERFERENCE)
several = settings(max_examples=examples(30), deadline=None)


def environment(
    jobs: int = 30, cluster: str = "fat_tree:4", policy: str = "fifo", interval: float = 0.0
) -> PlacementEnvironment:
    return PlacementEnvironment(CLUSTERS[cluster], PlacementWorkload(jobs=jobs).trace, policy, interval=interval)


def played(found: PlacementEnvironment, seed: int) -> list[PlacementStep]:
    """An episode of random feasible placements."""
    chance, steps = np.random.default_rng(seed), list[PlacementStep]()
    view = found.reset(seed)
    while not steps or not steps[-1].done:
        assert view.free.min() >= 0
        assert view.placed.sum() < view.gpus
        steps.append(found.step(int(chance.choice(np.flatnonzero(view.free)))))
        view = found.observe()
    return steps


@several
@given(
    st.sampled_from(list(CLUSTERS)), st.sampled_from(["fifo", "best_effort"]), st.sampled_from([0.0, 900.0]),
    st.sampled_from([style for style in STYLES if style != "skew"]), st.integers(0, 1000),
)  # fmt: skip
def test_an_episode_with_the_placements_of_a_simulation_ends_as_it_does(
    name: str, policy: str, interval: float, style: str, seed: int
) -> None:
    cluster, workload = CLUSTERS[name], PlacementWorkload(jobs=25, load=1.5)
    placement = SimulatedPlacement(SimulatedPlacement.named(style).style, effect=False)
    rules = Rules(
        POLICIES[policy],
        PolicyConfig(name=policy),
        interval=interval,
        by_node=True,
        placement=placement,
        contention=BOTH,
    )
    simulation = Simulation(workload.trace(seed, cluster.gpus), cluster, rules)
    groups = dict[int, list[int]]()
    while simulation.step():
        for row, held in held_groups(simulation).items():
            groups.setdefault(row, held)
    env = PlacementEnvironment(cluster, workload.trace, policy, BOTH, interval)
    view = env.reset(seed)
    while not env.step(groups[view.row].pop()).done:
        view = env.observe()
    assert env.outcome().start.tolist() == simulation.outcome().start.tolist()
    assert env.outcome().finish.tolist() == simulation.outcome().finish.tolist()


def held_groups(simulation: Simulation) -> dict[int, list[int]]:
    """The groups of the GPUs of the jobs that have just started, with each group as often as it has GPUs."""
    seen = simulation.observe()
    started = {event.row for event in seen.events if event.kind is EventKind.START}
    found: dict[int, list[int]] = {}
    held = seen.snapshot.allocations
    for job, node, islands in zip(held.job.tolist(), held.node.tolist(), held.resources.islands.tolist(), strict=True):
        row = int(seen.snapshot.jobs.id[job])
        if row in started:
            for socket, gpus in enumerate(islands):
                found.setdefault(row, []).extend([node * len(islands) + socket] * int(gpus))
    return found


@several
@given(st.sampled_from(list(CLUSTERS)), st.integers(0, 1000))
def test_rewards_are_the_completion_times_and_follow_from_the_seed(name: str, seed: int) -> None:
    env = environment(cluster=name)
    steps = played(env, seed)
    jct = env.outcome().jct
    assert sum(step.reward for step in steps) * env.trace.duration.mean() == pytest.approx(-jct.sum())
    ended = [each for step in steps for each in step.ended]
    assert sorted(row for row, _ in ended) == list(range(len(env.trace)))
    assert [jct[row] for row, _ in ended] == pytest.approx([seconds for _, seconds in ended])
    assert sum(step.started for step in steps) == len(env.trace)
    assert len(steps) == int(env.trace.gpus.sum())
    assert played(environment(cluster=name), seed) == steps == played(env, seed)
    assert played(env, seed + 1) != steps


def test_the_view_and_the_snapshot_show_what_is_placed() -> None:
    env = environment()
    first = env.reset(4)
    assert (first.running, int(first.free.sum()), first.waiting, int(first.link_jobs.sum())) == ((), 64, 1, 0)
    for server in range(first.gpus):
        env.step(2 * server)
    view = env.observe()
    assert view.running == (first.row,)
    assert [part.server for part in env.parts(first.row)] == list(range(first.gpus))
    assert (view.cpu > 0.0).sum() == (view.pcie > 0.0).sum() == first.gpus
    assert (int(view.link_jobs.max()), view.free[0].tolist()) == (1, [1, 2])
    snapshot = env.snapshot()
    assert snapshot.nodes.free["gpus"].sum() == 64 - first.gpus
    assert (snapshot.jobs.state == JobState.RUNNING).sum() == 1


@pytest.mark.parametrize("group", [-1, 32, 10**9])
def test_a_group_that_does_not_exist_is_refused(group: int) -> None:
    with pytest.raises(UsageError, match="has no free GPU"):
        environment().step(group)


def test_a_full_group_and_a_step_beyond_the_end_are_refused() -> None:
    env = PlacementEnvironment(CLUSTERS["fat_tree:2"], lambda seed, gpus: Trace.of([TraceJob("a", 0.0, 4, 60.0)]))
    assert [env.step(group).done for group in (0, 0)] == [False, False]
    with pytest.raises(UsageError, match="group 0 has no free GPU"):
        env.step(0)
    assert [env.step(group).done for group in (1, 3)] == [False, True]
    assert env.observe().row == -1
    with pytest.raises(UsageError, match="has no free GPU"):
        env.step(1)


def test_impossible_environments_are_one_line() -> None:
    with pytest.raises(UsageError, match="give a policy that does not preempt"):
        environment(policy="las")
    with pytest.raises(UsageError, match="no such policy"):
        environment(policy="none")
    with pytest.raises(UsageError, match="do not fit 8 GPUs"):
        PlacementEnvironment(CLUSTERS["fat_tree:2"], lambda seed, gpus: Trace.of([TraceJob("a", 0.0, 9, 60.0)]))
