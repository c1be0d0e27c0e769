"""Failures of schedulers that have quotas and topology, and what the rule `virtual_clusters` does in the same situation.

Each docstring has the behaviour as the issue of that project describes it. Where a few lines can model it, the test does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.scheduler.tenants.cluster_replay import ClusterReplay, ReplayedJob
from tests.scheduler.tenants.shared_cluster import CONFIG, DECLARED, GPUS, LEAVES, tenants_of, with_clusters
from tiresias.scheduler.model import Effect, JobState, Request, Snapshot
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.gpu_quotas import GpuQuotas
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy, TenantRule
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

FIFO = replace(CONFIG, name="fifo")
WHOLE_NODE = Request(max_nodes=1)


def fifo_of(names: Sequence[str]) -> list[TenantPolicy]:
    """Return tenants in the order of submission, and the jobs outside of them."""
    return tenants_of(dict.fromkeys((*names, OUTSIDE), FIFO))


def running(make: Any, name: str, placement: Sequence[tuple[int, int]], submit: float, **more: Any) -> Any:
    gpus = sum(count for _, count in placement)
    return make.Job(
        name,
        gpus,
        JobState.RUNNING,
        submit=submit,
        first_start=submit,
        last_start=submit,
        placement=tuple(placement),
        **more,
    )


def shown(
    make: Any, jobs: Mapping[str, Any], nodes: Sequence[Any], clusters: Sequence[str], cells: Sequence[str] = ()
) -> Snapshot:
    """Return a snapshot of jobs by name. `cells`: types of the owned cells of the allocations; (): none is in a cell."""
    snapshot = with_clusters(make(list(jobs.values()), nodes), clusters)
    held = snapshot.allocations
    return replace(snapshot, allocations=replace(held, owned_cell=tuple(cells) or ("",) * len(held.job)))


def six_nodes(make: Any) -> list[Any]:
    return [make.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]


def leaves_of(nodes: Sequence[str]) -> set[int]:
    return {LEAVES[int(name.removeprefix("n"))] for name in nodes}


def test_victims_are_chosen_where_the_beneficiary_fits(snapshot_of: Any) -> None:
    """Kueue 10815: a gang of one rack within its quota waits, while another queue borrows far beyond its own. The preemption
    chooses victims by quota and start time alone. They are scattered over the racks, so the topology refuses the plan, nothing
    is preempted, and the gang remains pending.

    Here `one` owns a node and uses all six, and `two` asks for the rack that it owns.
    """
    began = (0, 3, 1, 4, 2, 5)  # the order in which the nodes were used: the two newest jobs are in two racks
    jobs = {str(at): running(snapshot_of, str(at), [(at, 4)], submit=float(began[at])) for at in range(6)}
    newest = sorted(range(6), key=lambda at: began[at])[-2:]
    assert len({LEAVES[at] for at in newest}) == 2, "by quota alone, no rack is free afterwards"
    rack = snapshot_of.Job("rack", 8, submit=100.0)
    snapshot = shown(snapshot_of, {**jobs, "rack": rack}, six_nodes(snapshot_of), (*("one",) * 6, "two"))
    plan, _ = VirtualClusterRule(DECLARED).decide(snapshot, fifo_of(("one", "two")))
    (start,) = plan.reserved
    assert start.owned_cells == ("leaf", "leaf")
    assert len(leaves_of([name for name, _ in start.nodes])) == 1
    assert {f"n{each.job}" for each in plan.preemptions} == {name for name, _ in start.nodes}
    assert {each.beneficiary for each in plan.preemptions} == {"rack"}


@pytest.mark.parametrize(("rule", "starts_at"), [(GpuQuotas, 100.0), (VirtualClusterRule, 20.0)])
def test_a_tenant_within_its_share_is_not_blocked_by_topology(
    snapshot_of: Any, rule: type[TenantRule], starts_at: float
) -> None:
    """KAI 2065: only GPUs beyond a quota are reclaimed. Jobs of another queue that are within their quota use a part of each node,
    so a job that needs a whole node waits although its queue has the quota and enough GPUs are free. KAI added a mode in which
    queues of higher priority also reclaim within the quotas of others, which takes the guarantee from those.

    Here twelve jobs of `two` fill six nodes, and a half of them ends: half of each node remains in use, within the quota of `two`.
    `one` owns a node, and submits a job for it at 20 s. Under quotas it waits for jobs of `two`.
    """
    jobs = [ReplayedJob(f"{at:02}", "two", 2, at / 100, 100.0 if at % 2 else 10.0) for at in range(12)]
    node = ReplayedJob("node", "one", 4, 20.0, 5.0, request=WHOLE_NODE)
    make: Any = rule
    replay = ClusterReplay(snapshot_of, make(DECLARED), fifo_of(("one", "two")), [*jobs, node])
    replay.run()
    assert node.first_start == pytest.approx(starts_at, abs=1.0)
    assert max(job.end for job in jobs) == pytest.approx(100.0, abs=1.0), (
        "the preempted job starts in its cells at once"
    )


@pytest.mark.parametrize("unusable", [(0,), (0, 2), (0, 2, 4)])
def test_a_bad_node_takes_one_node_and_no_more(snapshot_of: Any, unusable: Sequence[int]) -> None:
    """Volcano 4684: a GPU that fails makes the topology above it invalid, and healthy nodes of the group get no jobs.

    Here nodes fail in one, two and all three racks. `two` owns a rack and a node, `one` owns a node. All healthy nodes are used,
    and a job of the size of a rack gets a healthy one as long as there is one, else nodes of two.
    """
    nodes = [replace(node, usable=at not in unusable) for at, node in enumerate(six_nodes(snapshot_of))]
    names = ("one", "two", "two", "two")
    jobs = {name: snapshot_of.Job(name, 4, request=WHOLE_NODE) for name in ("a", "b", "c", "d")}
    plan, _ = VirtualClusterRule(DECLARED).decide(shown(snapshot_of, jobs, nodes, names), fifo_of(("one", "two")))
    on = [int(name.removeprefix("n")) for start in plan.starts for name, _ in start.nodes]
    assert len(on) == min(4, 6 - len(unusable))
    assert not set(on) & set(unusable)
    assert sum(bool(start.owned_cells) for start in plan.starts) >= 3
    rack = shown(snapshot_of, {"rack": snapshot_of.Job("rack", 8)}, nodes, ("two",))
    plan, _ = VirtualClusterRule(DECLARED).decide(rack, fifo_of(("one", "two")))
    assert {start.job for start in plan.starts if start.owned_cells} == {"rack"}
    racks = leaves_of([name for name, _ in plan.starts[0].nodes])
    assert len(racks) == (1 if len(unusable) < 3 else 2)


class ByShare:
    """The order of Volcano's capacity plugin: the queue with the smallest share of what it deserves is served first.

    Args:
        deserved: GPUs of each queue.
        jobs: Queue and GPUs of each job.
        capacity: GPUs.
    """

    def __init__(self, deserved: Mapping[str, int], jobs: Mapping[str, tuple[str, int]], capacity: int) -> None:
        self._deserved, self._jobs, self._capacity = deserved, jobs, capacity
        self.evictions = 0

    def session(self, running: set[str], job: str) -> set[str]:
        """Return the running jobs after one session, in which `job` reclaims from queues beyond what they deserve, if it waits."""
        if job not in running:
            victims = {
                name
                for name in running
                if self._used(running, self._jobs[name][0]) > self._deserved[self._jobs[name][0]]
            }
            self.evictions += len(victims)
            running = running - victims
        for name in sorted(self._jobs, key=lambda each: self._share(running, self._jobs[each][0])):
            if name not in running and self._free(running) >= self._jobs[name][1]:
                running = running | {name}
        return running

    def _used(self, running: set[str], queue: str) -> int:
        return sum(gpus for name, (owner, gpus) in self._jobs.items() if owner == queue and name in running)

    def _share(self, running: set[str], queue: str) -> float:
        return self._used(running, queue) / self._deserved[queue]

    def _free(self, running: set[str]) -> int:
        return self._capacity - sum(self._jobs[name][1] for name in running)


def test_a_preempted_job_does_not_return_to_be_preempted_again(snapshot_of: Any) -> None:
    """Volcano 4947: queue 1 deserves 3 and runs pod 1 with 4, queue 2 deserves 5 and runs pod 2 with 1; pod 3 of queue 2 asks for
    4. Pod 1 is evicted for it. The share of queue 1 is 0 then, and that of queue 2 is 0.2, so pod 1 is scheduled first, on the
    GPUs that it has just lost, and is evicted again, session after session.

    Here the GPUs of a victim are reserved for the job for which it is preempted.
    """
    volcano = ByShare({"q1": 3, "q2": 5}, {"pod1": ("q1", 4), "pod2": ("q2", 1), "pod3": ("q2", 4)}, capacity=8)
    state = {"pod1", "pod2"}
    for _ in range(10):
        state = volcano.session(state, "pod3")
    assert (volcano.evictions, "pod3" in state) == (10, False)

    declared = tuple(DeclaredTenant(name, (DeclaredCells("node", count),)) for name, count in (("q1", 3), ("q2", 5)))
    nodes = [snapshot_of.Node(gpus=1) for _ in range(8)]
    jobs = {
        "pod1": running(snapshot_of, "pod1", [(at, 1) for at in range(4)], submit=0.0),
        "pod2": running(snapshot_of, "pod2", [(4, 1)], submit=1.0),
        "pod3": snapshot_of.Job("pod3", 4, submit=2.0),
    }
    rule, tenants, clusters = VirtualClusterRule(declared), fifo_of(("q1", "q2")), ("q1", "q2", "q2")
    plan, _ = rule.decide(shown(snapshot_of, jobs, nodes, clusters), tenants)
    assert [(each.job, each.beneficiary) for each in plan.preemptions] == [("pod1", "pod3")]
    jobs["pod1"] = replace(jobs["pod1"], state=JobState.RELEASING)
    plan, _ = rule.decide(shown(snapshot_of, jobs, nodes, clusters), tenants)  # while it releases its GPUs
    assert (plan.preemptions, [start.job for start in plan.reserved]) == ((), ["pod3"])
    jobs["pod1"] = snapshot_of.Job("pod1", 4, submit=0.0, preempted=900.0, first_start=0.0, last_start=0.0)
    plan, _ = rule.decide(shown(snapshot_of, jobs, nodes, clusters), tenants)
    assert [start.job for start in plan.starts] == ["pod3"]
    jobs["pod3"] = running(snapshot_of, "pod3", [(int(name[1:]), 1) for name, _ in plan.starts[0].nodes], submit=2.0)
    plan, _ = rule.decide(shown(snapshot_of, jobs, nodes, clusters, _cells_of(jobs)), tenants)
    assert (plan.starts, plan.preemptions) == ((), ())
    assert plan.effect.tolist() == [Effect.WAIT, Effect.KEEP, Effect.KEEP]


def _cells_of(jobs: Mapping[str, Any]) -> list[str]:
    return ["node" for job in jobs.values() if job.state == JobState.RUNNING for _ in job.placement]


def test_no_more_is_preempted_than_is_needed(snapshot_of: Any) -> None:
    """Kueue 10131: three queues borrow 4 GPUs each. The owner of the idle quota asks for 4, and two of the borrowing jobs are
    preempted, in a random order and whatever their priority, although one is enough. The second one is admitted again at once.

    Here the same on six nodes of 2 GPUs. One job is preempted, and it is the same one in each decision.
    """
    declared = tuple(
        DeclaredTenant(name, (DeclaredCells("node", count),)) for name, count in (("a", 1), ("b", 1), ("c", 4))
    )
    nodes = [snapshot_of.Node(gpus=2) for _ in range(6)]
    jobs = {
        name: running(snapshot_of, name, [(2 * at, 2), (2 * at + 1, 2)], submit=float(at))
        for at, name in enumerate(("high", "normal", "low"))
    }
    asked = {**jobs, "owner": snapshot_of.Job("owner", 4, submit=10.0)}
    plans = [
        VirtualClusterRule(declared).decide(
            shown(snapshot_of, asked, nodes, ("a", "b", "", "c")), fifo_of(("a", "b", "c"))
        )[0]
        for _ in range(3)
    ]
    assert [[each.job for each in plan.preemptions] for plan in plans] == [["low"]] * 3
