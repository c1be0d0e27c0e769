"""Jobs that slow each other: the ends of all jobs agree with an integration of their speeds by brute force."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.simulator.contention.brute_force import Place, slowdowns
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import JobState
from tiresias.scheduler.rank.policies import CLAIRVOYANT, POLICIES
from tiresias.simulator import ClusterSize, Cost, Outcome, Rules, Simulation, Trace, TraceJob, simulate
from tiresias.simulator.contention.contention_tracker import ContentionTracker
from tiresias.simulator.contention.job_profiles import profile_of
from tiresias.simulator.contention.server_loads import PartOfServer
from tiresias.simulator.contention.simulated_contention import DEFAULT_INTERFERENCE, SimulatedContention
from tiresias.simulator.failures import Exponential
from tiresias.simulator.models import MODELS
from tiresias.simulator.simulated_placement import SimulatedPlacement
from tiresias.simulator.topologies.named_topologies import network_of
from tiresias.simulator.topologies.network_builder import NetworkOptions
from tiresias.simulator.topologies.server_kinds import SERVERS

BOTH = SimulatedContention(DEFAULT_INTERFERENCE)
NETWORK_ALONE = SimulatedContention()
EVERY_POLICY = {**POLICIES, **CLAIRVOYANT}
CONFIG = PolicyConfig(thresholds=(200.0,))
TOPOLOGIES = ("fat_tree:2", "fat_tree:4", "vl2:2,2,3", "bcube:2,1")

rows = st.tuples(
    st.integers(0, 300).map(float),
    st.sampled_from([1, 1, 2, 3, 5, 8]),
    st.integers(0, 300).map(float),
    st.sampled_from([*MODELS]),
)
traces = st.lists(rows, min_size=1, max_size=9)
clusters = st.builds(
    lambda name, servers: ClusterSize.of_network(network_of(name, NetworkOptions(servers=SERVERS[servers]))),
    st.sampled_from(TOPOLOGIES),
    st.sampled_from(list(SERVERS)),
)
placements = st.sampled_from(["consolidate", "random", "load_balancing"]).map(SimulatedPlacement.named)


def trace(jobs: list[tuple[float, int, float, str]]) -> Trace:
    return Trace.of(TraceJob(str(at), *job[:3], model=job[3]) for at, job in enumerate(jobs))


def places(simulation: Simulation) -> tuple[dict[int, Place], dict[int, float]]:
    """Where jobs run that make progress or will, and from when on, by row of the trace."""
    seen = simulation.observe().snapshot
    found: dict[int, Place] = {}
    for job, node, islands in zip(
        seen.allocations.job.tolist(),
        seen.allocations.node.tolist(),
        seen.allocations.resources.islands.tolist(),
        strict=True,
    ):
        if seen.jobs.state[job] == JobState.RUNNING:
            found.setdefault(int(seen.jobs.id[job]), {})[node] = [int(each) for each in islands]
    assert seen.jobs.progress_from is not None
    since = dict(zip(map(int, seen.jobs.id), seen.jobs.progress_from.tolist(), strict=True))
    return found, since


def work_by_brute_force(jobs: Trace, cluster: ClusterSize, rules: Rules) -> tuple[dict[int, float], Outcome]:
    """Integrate the work of each job over the pieces between two steps, with speeds that are computed anew for each."""
    simulation, done, before = Simulation(jobs, cluster, rules), dict[int, float](), 0.0
    running: dict[int, Place] = {}
    since: Mapping[int, float] = {}
    while simulation.step():
        slow = slowdowns(jobs, cluster, running, rules.contention or NETWORK_ALONE)
        for row in running:
            passed = simulation.time - max(before, since[row])
            done[row] = done.get(row, 0.0) + max(passed, 0.0) / slow[row]
        before = simulation.time
        running, since = places(simulation)
    return done, simulation.outcome()


@settings(max_examples=examples(80), deadline=None)
@given(
    traces, clusters, placements, st.sampled_from(list(EVERY_POLICY)), st.sampled_from([Cost(), Cost(3.0, 5.0)]),
    st.sampled_from([BOTH, NETWORK_ALONE]), st.sampled_from([0.0, 60.0]), st.booleans(),
)  # fmt: skip
def test_every_job_ends_when_its_work_is_done(
    rows: list[tuple[float, int, float, str]], cluster: ClusterSize, placement: SimulatedPlacement, policy: str, cost: Cost,
    contention: SimulatedContention, interval: float, failures: bool,
) -> None:  # fmt: skip
    jobs = trace([row for row in rows if row[1] <= cluster.gpus] or [(0.0, 1, 1.0, "vgg16")])
    rules = Rules(
        EVERY_POLICY[policy], CONFIG, cost, interval=interval, by_node=True, placement=placement, contention=contention,
        failures=Exponential(2000.0, 20.0, 1) if failures else None,
    )  # fmt: skip
    done, outcome = work_by_brute_force(jobs, cluster, rules)
    assert [done.get(row, 0.0) for row in range(len(jobs))] == pytest.approx(jobs.duration.tolist(), rel=1e-9, abs=1e-5)
    assert outcome.slowdowns is not None
    assert (np.nan_to_num(outcome.slowdowns.interference, nan=1.0) >= 1.0).all()
    assert (np.nan_to_num(outcome.slowdowns.network, nan=1.0) >= 1.0).all()


@settings(max_examples=examples(40), deadline=None)
@given(traces, st.sampled_from(list(EVERY_POLICY)), st.sampled_from([Cost(), Cost(3.0, 5.0)]))
def test_jobs_that_do_not_slow_each_other_end_as_without_contention(
    rows: list[tuple[float, int, float, str]], policy: str, cost: Cost
) -> None:
    jobs, cluster = trace(rows), ClusterSize(4, 4, 2, 2)
    plain, followed = (
        simulate(jobs, cluster, Rules(EVERY_POLICY[policy], CONFIG, cost, by_node=True, contention=contention))
        for contention in (None, NETWORK_ALONE)
    )
    for name in ("start", "finish", "preemptions"):
        assert getattr(plain, name).tolist() == getattr(followed, name).tolist()


def test_two_jobs_share_the_link_between_them_and_go_on_faster_alone() -> None:
    """Two jobs of 6 GPUs on two servers of 8: one link of 10 Gbit/s each, shared while both run."""
    options = NetworkOptions((10.0,), SERVERS["dgx"])
    cluster = ClusterSize.of_network(network_of("fat_tree:2", options))  # two servers
    jobs = Trace.of([TraceJob("a", 0.0, 6, 100.0, model="vgg16"), TraceJob("b", 0.0, 6, 50.0, model="vgg16")])
    rules = Rules(
        POLICIES["fifo"], PolicyConfig(name="fifo"), by_node=True, contention=NETWORK_ALONE,
        placement=SimulatedPlacement.named("load_balancing"),
    )  # fmt: skip
    done = simulate(jobs, cluster, rules)
    profile = profile_of("vgg16")
    exchange = 2 * 5 / 6 * profile.gradients / 10.0  # seconds, alone on the link
    alone, shared = (1 + n * exchange / profile.compute for n in (1, 2))  # one server would do, without any exchange
    assert done.finish[1] == pytest.approx(50.0 * shared)
    assert done.finish[0] == pytest.approx(50.0 * shared + 50.0 * alone)
    assert done.slowdowns is not None
    assert done.slowdowns.network == pytest.approx([(shared + alone) / 2, shared])
    assert done.slowdowns.interference.tolist() == [1.0, 1.0]


def test_a_failure_undoes_work_since_the_last_checkpoint_also_after_a_change_of_speed() -> None:
    cluster = ClusterSize.of_network(network_of("fat_tree:2", NetworkOptions(servers=SERVERS["dgx"])))
    jobs = Trace.of([TraceJob(str(at), 40.0 * at, 2, 400.0, model="alexnet") for at in range(4)])
    rules = Rules(
        POLICIES["fifo"], PolicyConfig(name="fifo"), by_node=True, contention=BOTH, checkpoint_interval=50.0,
        failures=Exponential(300.0, 10.0, 3),
    )  # fmt: skip
    done = simulate(jobs, cluster, rules)
    assert np.isfinite(done.finish).all()
    assert done.lost > 0.0
    assert done.lost % 1.0 >= 0.0
    assert (done.jct >= jobs.duration).all()


def test_interference_grows_with_the_jobs_of_a_socket_and_differs_by_socket() -> None:
    cluster = ClusterSize(1, 4, 0, 2)
    alone = [((0,), 0), ((0, 1), 0), ((0, 1, 2), 0)]
    found = []
    for rows, job in alone:
        jobs = Trace.of([TraceJob(str(at), 0.0, 1, 100.0, model="googlenet") for at in rows])
        place: dict[int, Place] = {row: {0: [1, 0] if row < 2 else [0, 1]} for row in rows}
        found.append(slowdowns(jobs, cluster, place, BOTH)[job])
    assert found[0] == 1.0 < found[1] == found[2]
    assert math.isfinite(found[2])


def test_snapshots_have_the_expected_interference_and_placements_use_it() -> None:
    """A job of one GPU goes beside the job that uses fewer processors."""
    cluster = ClusterSize.of_network(network_of("fat_tree:2"))
    models = ("googlenet", "resnet152", "alexnet")
    jobs = Trace.of(
        [TraceJob(str(at), float(at), 3 if at < 2 else 1, 900.0, model=name) for at, name in enumerate(models)]
    )
    found = []
    for style in ("consolidate", "least_interference"):
        rules = Rules(
            POLICIES["fifo"],
            PolicyConfig(name="fifo"),
            by_node=True,
            contention=BOTH,
            placement=SimulatedPlacement.named(style),
        )
        simulation = Simulation(jobs, cluster, rules)
        simulation.run(until=2.0)
        found.append({row: [*place] for row, place in places(simulation)[0].items()})
    assert found[0] == {0: [0], 1: [1], 2: [0]}
    assert found[1] == {0: [0], 1: [1], 2: [1]}
    snapshot = simulation.observe().snapshot
    assert snapshot.interference is not None
    assert snapshot.jobs.interference_kind is not None
    assert [snapshot.interference.kinds[kind] for kind in snapshot.jobs.interference_kind.tolist()] == [*models]
    beside = slowdowns(jobs, ClusterSize(1, 4, 0, 2), {0: {0: [2, 0]}, 1: {0: [2, 0]}}, BOTH)
    rows = snapshot.jobs.interference_kind[:2].tolist()
    assert [snapshot.interference.slowdown[rows[at], rows[1 - at]] for at in (0, 1)] == pytest.approx(
        [beside[0], beside[1]]
    )


def test_the_excess_counts_starts_and_stops_that_are_not_settled() -> None:
    network = network_of("fat_tree:4")
    tracker = ContentionTracker(["vgg16"] * 3, network.kinds, network, DEFAULT_INTERFERENCE)
    for row, (one, other) in enumerate(((0, 1), (0, 4), (1, 4))):
        before, parts = tracker.excess(), (PartOfServer(one, (1, 0)), PartOfServer(other, (1, 0)))
        examined = tracker.excess_with(row, parts, 0.0)
        assert tracker.excess() == before
        assert tracker.settle(0.0) == []
        tracker.start(row, parts, 0.0)
        unsettled = tracker.excess()
        assert examined == unsettled
        tracker.settle(0.0)
        assert unsettled == pytest.approx(tracker.excess())
        assert unsettled > before
    for row in range(3):
        before = tracker.excess()
        tracker.stop(row, 10.0)
        unsettled = tracker.excess()
        tracker.settle(10.0)
        assert unsettled == pytest.approx(tracker.excess())
        assert unsettled < before
    assert tracker.excess() == 0.0
