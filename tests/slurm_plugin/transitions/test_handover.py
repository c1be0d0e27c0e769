"""The steps of a hand-over: two preempted jobs, and the beneficiary that needs the GPUs of both."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.transitions.actor_harness import NO_ROWS, ActorHarness, Make
from tiresias.protocol.control import JobReport
from tiresias.scheduler.model import Plan, Preempt, Start
from tiresias.slurm_plugin.backends.interface import (
    TOP_PRIORITY,
    JobRefused,
    NodeShare,
    NotRequeueable,
    SlurmUnavailable,
)
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.save_proof import LATE_SECONDS

NODES = (("gpu01", 4), ("gpu02", 4))


class Group(ActorHarness):
    """Jobs 1 and 2 run on a node each, job 3 needs both."""

    def __init__(self, journal: Journal, running: Make, pending: Make) -> None:
        self.reports: dict[str, JobReport] = {}
        super().__init__(journal, running(1000))
        shares = (NodeShare("gpu02", 4, 4, 400),)
        self.slurm.jobs["2"] = running(1000, id="2", raw_id=2, shares=shares)
        self.slurm.jobs["3"] = pending(id="3", raw_id=3, gpus=8, priority=1, reason="None")
        self.slurm.starts = False
        self.refresh()

    def restart_controller(self) -> None:
        super().restart_controller()
        self.actor.context.report = lambda job: self.reports.get(job.id, JobReport())

    def preempt_both(self, now: float = 1100.0) -> None:
        self.actor.begin(plan((Preempt("1", "3"), Preempt("2", "3")), (Start("3", NODES),)), now)

    def parked(self, *jobs: str) -> None:
        self.reports |= dict.fromkeys(jobs, JobReport(0, "parked", True, 7))

    def steps(self) -> dict[str, str]:
        return {one.id: one.step for one in self.journal.open_intents()}

    def why(self, job: str) -> list[str]:
        return [f"{one.action}: {one.why}" for one in self.actor.context.news if one.id == job]


def plan(preemptions: tuple[Preempt, ...], reserved: tuple[Start, ...]) -> Plan:
    return Plan(NO_ROWS, NO_ROWS, NO_ROWS, actions=preemptions, reserved=reserved)


@pytest.fixture
def group(journal: Journal, running: Make, pending: Make) -> Group:
    return Group(journal, running, pending)


def test_no_victim_is_requeued_before_all_have_parked_and_the_beneficiary_waits_for_the_nodes(group: Group) -> None:
    group.preempt_both()
    group.poll(1101)
    group.parked("1")
    group.poll(1102)
    assert group.steps() == {"1": "parked", "2": "wait"}
    assert "requeue" not in group.slurm.calls
    group.parked("2")
    group.poll(1103)
    calls = group.slurm.calls
    assert calls.index("pin") < calls.index("lift") < calls.index("prioritize") < calls.index("requeue")
    assert calls[calls.index("requeue") + 1] == "requeue", "together"
    third = group.slurm.jobs["3"]
    assert (third.required_nodes, third.priority) == (("gpu01", "gpu02"), TOP_PRIORITY)
    assert [group.slurm.jobs[job].restarts for job in "12"] == [1, 1]


def test_a_beneficiary_that_runs_has_the_usual_priority_again(group: Group) -> None:
    group.preempt_both()
    group.poll(1100)
    group.parked("1", "2")
    group.poll(1101)
    group.slurm.change("3", state="RUNNING", reason="None", start_time=1101)
    group.poll(1102)
    group.poll(1103)
    assert group.journal.open_intents() == []
    assert 0 < group.slurm.jobs["3"].priority < TOP_PRIORITY


@pytest.mark.parametrize("controller", ["same controller", "restarted controller"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("operation", ["job", "pin", "lift", "prioritize", "requeue"])
def test_a_hand_over_that_slurm_interrupts_is_completed(
    group: Group, operation: str, when: str, controller: str
) -> None:
    group.preempt_both()
    group.poll(1100)
    group.parked("1", "2")
    group.slurm.fail(operation, SlurmUnavailable("no answer"), when)
    with pytest.raises(SlurmUnavailable):
        group.poll(1101)
    if controller == "restarted controller":
        group.restart_controller()
    group.poll(1102)
    group.poll(1103)
    assert [group.slurm.jobs[job].restarts for job in "12"] == [1, 1]
    assert group.steps() == {"3": "confirm"}
    assert group.slurm.jobs["3"].priority == TOP_PRIORITY


@pytest.mark.parametrize("controller", ["same controller", "restarted controller"])
def test_without_the_beneficiary_signalled_jobs_save_and_the_others_continue(group: Group, controller: str) -> None:
    record_earlier_save(group, "2")
    group.preempt_both()
    group.poll(1100)
    assert group.steps() == {"1": "wait", "2": "turn"}
    group.slurm.change("3", state="CANCELLED")
    if controller == "restarted controller":
        group.restart_controller()
    group.poll(1101)
    assert (group.slurm.jobs["2"].priority > 0, group.ledger.jobs["2"].held) == (True, False)
    assert group.ledger.jobs["2"].unmovable == ""
    group.parked("1")
    group.poll(1102)
    assert group.journal.open_intents() == []
    assert [group.slurm.jobs[job].restarts for job in "12"] == [1, 0]


def test_a_victim_that_does_not_save_spares_those_that_were_not_signalled(group: Group) -> None:
    record_earlier_save(group, "2")
    group.preempt_both()
    group.poll(1100)
    group.poll(1120)
    assert group.steps() == {"2": "spare"} or group.steps() == {}
    group.poll(1121)
    assert group.slurm.calls.count("signal") == 1
    assert group.why("2")[-1] == "left running: job 3 cannot use its GPUs any more"
    assert group.slurm.jobs["2"].priority > 0
    assert group.ledger.jobs["1"].unmovable.startswith("not_saved: ")


def test_a_refused_signal_ends_the_hand_over_for_all(group: Group) -> None:
    record_earlier_save(group, "2")
    group.preempt_both()
    group.slurm.fail("signal", JobRefused("no"))
    for now in (1101, 1102, 1103):
        group.poll(now)
    assert group.journal.open_intents() == []
    assert [group.slurm.jobs[job].priority > 0 for job in "12"] == [True, True]
    assert [bool(group.ledger.jobs[job].unmovable) for job in "12"] == [True, False]


def test_a_refused_requeue_of_all_is_followed_by_one_for_each(group: Group) -> None:
    group.preempt_both()
    group.poll(1100)
    group.parked("1", "2")
    group.slurm.fail("requeue", NotRequeueable("no"))
    for now in (1101, 1102, 1103):
        group.poll(now)
    assert [group.slurm.jobs[job].restarts for job in "12"] == [1, 1]


def test_a_late_save_is_remembered_after_a_restart(group: Group) -> None:
    group.preempt_both()
    group.poll(1100)
    group.poll(1120)
    group.poll(1121)
    group.restart_controller()
    row = group.ledger.jobs["1"]
    assert group.ledger.saves.late_until(row) == 1120 + LATE_SECONDS
    assert group.ledger.proof(row) == 0


def test_a_preempted_job_whose_script_resumed_is_signalled_again(group: Group) -> None:
    """Its supervisor did not wait any longer for the requeue, because another preempted job saved slowly."""
    group.preempt_both()
    group.poll(1100)
    group.parked("1")
    group.reports["2"] = JobReport(0, "saving", True, 7)
    group.poll(1101)
    group.reports["1"] = JobReport(0, "running", True, 7)
    signals = group.slurm.calls.count("signal")
    group.poll(1110)
    group.poll(1111)
    assert group.slurm.calls.count("signal") == signals + 1
    assert group.steps()["1"] == "wait"
    assert "requeue" not in group.slurm.calls


def test_gpus_that_the_beneficiary_does_not_need_are_handed_to_the_next_job(group: Group, pending: Make) -> None:
    group.slurm.jobs["4"] = pending(id="4", raw_id=4, gpus=2, priority=1, reason="None")
    group.slurm.jobs["5"] = pending(id="5", raw_id=5, gpus=2, priority=1, reason="None")
    group.refresh()
    reserved = (Start("3", (("gpu01", 2),)), Start("4", (("gpu01", 2),)), Start("5", (("gpu02", 2),)))
    group.actor.begin(plan((Preempt("1", "3"),), reserved), 1100)
    group.poll(1100)
    group.parked("1")
    group.poll(1101)
    assert {job: group.slurm.jobs[job].priority == TOP_PRIORITY for job in "345"} == {"3": True, "4": True, "5": False}


def record_earlier_save(group: Group, job: str) -> None:
    """Journal that the job saved at an earlier preemption."""
    group.ledger.usage.note(group.ledger.jobs[job], 0, pause=1.0)
