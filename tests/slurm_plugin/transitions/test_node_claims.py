"""Starts that share nodes on which Slurm chooses the GPUs of one of them: they are begun one after the other."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.transitions.actor_harness import NO_ROWS, ActorHarness, Make
from tiresias.protocol.control import JobReport
from tiresias.scheduler.model import Plan, Preempt, Start
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob, SlurmNode, StatedGpus
from tiresias.slurm_plugin.state.journal import Journal

NODES = ("gpu01", "gpu02", "gpu03")


def node(name: str, allocated: int) -> SlurmNode:
    return SlurmNode(name, "MIXED", frozenset(), "", 4, allocated, "", 16, 0, 64_000, 0, (), ("gpu",))


class Cluster(ActorHarness):
    """Three nodes of 4 GPUs; jobs 1, 2 and 3 wait for GPUs."""

    def __init__(self, journal: Journal, pending: Make) -> None:
        self.held = dict.fromkeys(NODES, 0)
        self.reports: dict[str, JobReport] = {}
        super().__init__(journal, pending(priority=1, reason="None"))
        for number in (2, 3):
            self.slurm.jobs[str(number)] = pending(id=str(number), raw_id=number, priority=1, reason="None")
        self.slurm.starts = False
        self.actor.context.report = lambda job: self.reports.get(job.id, JobReport())
        self.refresh()

    def refresh(self) -> list[SlurmJob]:
        managed = self.ledger.apply(self.slurm.snapshot())
        self.actor.see(managed, nodes=[node(name, self.held[name]) for name in NODES])
        return managed

    def begin(self, *starts: Start, preempted: tuple[Preempt, ...] = (), reserved: tuple[Start, ...] = ()) -> list[str]:
        """Return the ids of the jobs with an open intent."""
        self.actor.begin(Plan(NO_ROWS, NO_ROWS, NO_ROWS, actions=(*starts, *preempted), reserved=reserved), 1100.0)
        return [one.id for one in self.journal.open_intents()]

    def runs(self, job: str, *shares: tuple[str, int]) -> None:
        """Slurm has started a job on these GPUs."""
        self.slurm.change(
            job, state="RUNNING", start_time=1100, shares=tuple(NodeShare(name, gpus, gpus, 0) for name, gpus in shares)
        )
        for name, gpus in shares:
            self.held[name] += gpus
        self.refresh()
        self.actor.confirm(1101.0)


@pytest.fixture
def cluster(journal: Journal, pending: Make) -> Cluster:
    return Cluster(journal, pending)


def test_a_start_waits_until_slurm_has_distributed_the_gpus_of_another_one_on_its_node(cluster: Cluster) -> None:
    spread, single = Start("1", (("gpu01", 1), ("gpu02", 4))), Start("2", (("gpu01", 3),))
    assert cluster.begin(spread, single) == ["1"]
    cluster.actor.advance(1100.0)
    cluster.refresh()
    assert cluster.begin(single) == ["1"]
    cluster.runs("1", ("gpu01", 4), ("gpu02", 1))
    assert cluster.begin(Start("2", (("gpu02", 3),))) == ["2"]


def test_an_open_distribution_waits_for_a_start_on_one_of_its_nodes(cluster: Cluster) -> None:
    assert cluster.begin(Start("2", (("gpu01", 1),)), Start("1", (("gpu01", 2), ("gpu02", 4)))) == ["2"]


def test_starts_that_leave_slurm_no_choice_begin_together(cluster: Cluster) -> None:
    cluster.held["gpu02"] = 2
    cluster.refresh()
    whole = Start("1", (("gpu01", 4), ("gpu02", 2)))
    assert cluster.begin(whole, Start("2", (("gpu03", 2),)), Start("3", (("gpu03", 2),))) == ["1", "2", "3"]


def test_a_request_of_gpus_for_each_node_leaves_slurm_no_choice(cluster: Cluster) -> None:
    cluster.slurm.change("1", stated_gpus=(StatedGpus("node", 2),))
    cluster.refresh()
    assert cluster.begin(Start("1", (("gpu01", 2), ("gpu02", 2))), Start("2", (("gpu01", 2),))) == ["1", "2"]


def test_a_start_that_waits_keeps_its_nodes_from_later_ones(cluster: Cluster) -> None:
    first = Start("1", (("gpu01", 1),))
    spread, last = Start("2", (("gpu01", 1), ("gpu02", 1))), Start("3", (("gpu02", 1),))
    assert cluster.begin(first, spread, last) == ["1"]


def preempted(cluster: Cluster) -> None:
    """Job 1 holds four GPUs of gpu01, for which it is preempted, as job 2 is to get five."""
    cluster.runs("1", ("gpu01", 4))
    cluster.slurm.change("2", gpus=5)
    cluster.refresh()
    reserved = Start("2", (("gpu01", 4), ("gpu02", 1)))
    cluster.begin(preempted=(Preempt("1", "2"),), reserved=(reserved,))
    cluster.poll(1101.0)


def test_a_beneficiary_whose_other_gpus_were_taken_is_planned_anew(cluster: Cluster) -> None:
    preempted(cluster)
    cluster.held["gpu02"] = 4
    cluster.reports["1"] = JobReport(0, "parked", True, 7)
    cluster.poll(1102.0)
    assert "pin" not in cluster.slurm.calls
    assert cluster.slurm.jobs["1"].restarts == 1
    cluster.poll(1103.0)
    assert cluster.journal.open_intents() == []


def test_a_hand_over_waits_for_a_start_whose_distribution_is_open(cluster: Cluster) -> None:
    preempted(cluster)
    assert cluster.begin(Start("3", (("gpu02", 1), ("gpu03", 2)))) == ["1", "3"]
    cluster.reports["1"] = JobReport(0, "parked", True, 7)
    cluster.poll(1102.0)
    assert [one.step for one in cluster.journal.open_intents() if one.id == "1"] == ["parked"]
    cluster.runs("3", ("gpu02", 2), ("gpu03", 1))
    cluster.poll(1103.0)
    assert cluster.slurm.jobs["2"].required_nodes == ("gpu01", "gpu02")


def test_gpus_that_were_released_since_the_snapshot_are_free(cluster: Cluster) -> None:
    preempted(cluster)
    cluster.reports["1"] = JobReport(0, "parked", True, 7)
    context = cluster.actor.context
    assert context.free_gpus["gpu01"] == 0
    cluster.poll(1102.0)
    cluster.actor.advance(1103.0)
    assert [one.id for one in cluster.journal.open_intents()] == ["2"]
    assert context.runs("1"), "the snapshot is older"
    assert context.free_gpus["gpu01"] == 4
