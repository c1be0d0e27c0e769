"""The preemption by a restart from the beginning: alone, and beside victims that save, for one beneficiary."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.transitions.actor_harness import NO_ROWS, Make
from tests.slurm_plugin.transitions.test_handover import Group
from tiresias.protocol.control import JobReport
from tiresias.scheduler.model import Plan, Preempt, Start
from tiresias.slurm_plugin.backends.interface import JobRefused, NotRequeueable, SlurmUnavailable
from tiresias.slurm_plugin.sockets.history_pages import ALL_TIME
from tiresias.slurm_plugin.state.intents import IntentKind
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_history import History
from tiresias.slurm_plugin.state.usage import usage

ACCEPTED = "as its owner accepts (tsbatch --opportunistic=restart)"


class Endable(Group):
    """Jobs 1 and 2 run on a node each, job 3 needs both. The runs of `ended` are ended, those of others save."""

    ended: tuple[str, ...] = ("1", "2")

    def restart_controller(self) -> None:
        super().restart_controller()
        self.actor.context.kind_of_preemption = lambda job: (
            IntentKind.RESTART if job.id in self.ended else IntentKind.PREEMPT
        )

    def give_to_one(self, now: float = 1100.0) -> None:
        """Preempt job 1 alone, for job 3."""
        start = Start("3", (("gpu01", 4),))
        self.actor.begin(Plan(NO_ROWS, NO_ROWS, NO_ROWS, actions=(Preempt("1", "3"),), reserved=(start,)), now)

    def outcomes(self) -> dict[str, str]:
        found = self.journal._db.execute("select id, outcome from intent where outcome != '' order by seq")
        return dict(found.fetchall())

    def restarts(self) -> list[int]:
        return [self.slurm.jobs[job].restarts for job in "12"]


@pytest.fixture
def group(journal: Journal, running: Make, pending: Make) -> Endable:
    return Endable(journal, running, pending)


def test_runs_are_ended_without_a_signal_once_the_beneficiary_is_released(group: Endable) -> None:
    for job in "12":
        group.ledger.requests.note_choice(group.ledger.jobs[job], "restart")
    group.preempt_both()
    group.poll(1101)
    calls = group.slurm.calls
    assert "signal" not in calls
    assert calls.index("hold") < calls.index("pin") < calls.index("prioritize") < calls.index("requeue")
    assert group.restarts() == [1, 1]
    group.poll(1102)
    assert group.why("1")[0] == (
        f"restart: for job 3: its run is ended and starts again, from the beginning unless it has saved, {ACCEPTED}"
    )
    assert group.why("1")[-1].startswith("restarted: its run was ended ")
    assert group.steps() == {"3": "confirm"}
    assert [group.ledger.jobs[job].held for job in "12"] == [True, True], "as after each preemption"
    assert [group.ledger.jobs[job].preemptions for job in "12"] == [1, 1]


def test_what_is_lost_is_accounted_and_attained_service_stays(group: Endable) -> None:
    """Job 1 ran from 1000 to 1499; its newest save was at 1200."""
    group.reports["1"] = JobReport(0, "running", saved_at=1200.0)
    group.preempt_both()
    group.poll(1101)
    group.poll(1102)
    runs = {job: group.ledger.runs_of(group.ledger.jobs[job])[0] for job in "12"}
    assert {job: run.lost for job, run in runs.items()} == {"1": 299.0, "2": 499.0}
    assert [run.pause for run in runs.values()] == [None, None], "it is no evidence that the job saves"
    assert [group.ledger.proof(group.ledger.jobs[job]) for job in "12"] == [0, 0]
    found = usage(group.ledger.jobs["1"], [runs["1"]], ALL_TIME, 1500.0)
    assert (found.preemptions, found.served, found.redone) == (1, 499.0 * 4, 299.0 * 4)
    assert History(group.journal._db).beneficiaries(group.ledger.jobs["1"].key) == {0: "3"}


@pytest.mark.parametrize("controller", ["same controller", "restarted controller"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("operation", ["hold", "job", "pin", "lift", "prioritize", "requeue"])
def test_a_preemption_by_restart_that_slurm_interrupts_is_completed(
    group: Endable, operation: str, when: str, controller: str
) -> None:
    group.preempt_both()
    group.slurm.fail(operation, SlurmUnavailable("no answer"), when)
    with pytest.raises(SlurmUnavailable):
        group.poll(1101)
    if controller == "restarted controller":
        group.restart_controller()
    for now in (1102, 1103, 1104):
        group.poll(now)
    assert group.restarts() == [1, 1]
    assert group.steps() == {"3": "confirm"}
    assert "signal" not in group.slurm.calls


def test_a_run_is_ended_only_once_the_others_have_saved(group: Endable) -> None:
    group.ended = ("2",)
    group.preempt_both()
    group.poll(1101)
    assert group.steps() == {"1": "wait", "2": "turn"}
    group.poll(1102)
    assert group.restarts() == [0, 0]
    group.parked("1")
    group.poll(1103)
    assert group.restarts() == [1, 1]
    assert group.slurm.calls.count("signal") == 1


def test_a_victim_that_does_not_save_spares_the_run_that_was_to_be_ended(group: Endable) -> None:
    group.ended = ("2",)
    group.preempt_both()
    group.poll(1101)
    for now in (1121, 1122, 1123):
        group.poll(now)
    assert group.journal.open_intents() == []
    assert group.restarts() == [0, 0]
    assert group.why("2")[-1] == "left running: job 3 cannot use its GPUs any more"
    assert (group.slurm.jobs["2"].priority > 0, group.ledger.jobs["2"].held) == (True, False)


@pytest.mark.parametrize("controller", ["same controller", "restarted controller"])
def test_without_the_beneficiary_the_run_continues(group: Endable, controller: str) -> None:
    """Although nothing else was missing: the beneficiary is released before the runs are ended, and Slurm refuses that."""
    group.give_to_one()
    group.slurm.fail("pin", JobRefused("no"))
    group.poll(1101)
    assert group.steps() == {"1": "parked"}
    if controller == "restarted controller":
        group.restart_controller()
    group.slurm.change("3", state="CANCELLED")
    for now in (1102, 1103):
        group.poll(now)
    assert group.journal.open_intents() == []
    assert (group.restarts(), group.slurm.jobs["1"].priority > 0) == ([0, 0], True)
    assert group.why("1")[-1] == "left running: job 3 cannot use its GPUs any more"


def test_a_run_that_ends_by_itself_meanwhile_is_no_failure(group: Endable) -> None:
    group.ended = ("2",)
    group.preempt_both()
    group.poll(1101)
    group.slurm.change("2", state="COMPLETED", shares=(), end_time=1102)
    group.parked("1")
    for now in (1103, 1104, 1105):
        group.poll(now)
    assert group.restarts() == [1, 0]
    assert group.outcomes()["2"].startswith("ended: ")
    assert group.steps() == {"3": "confirm"}


def test_a_run_that_slurm_does_not_requeue_continues_and_is_not_tried_again(group: Endable) -> None:
    group.give_to_one()
    group.slurm.fail("requeue", NotRequeueable("no"))
    for now in (1101, 1102, 1103):
        group.poll(now)
    assert group.ledger.jobs["1"].unmovable == "not_requeueable: no"
    assert group.slurm.jobs["1"].priority > 0
    assert "1" not in group.steps()


def test_a_run_that_was_asked_to_save_in_vain_is_ended_by_the_next_preemption(group: Endable) -> None:
    group.ended = ()
    group.give_to_one()
    for now in (1100, 1121, 1122):
        group.poll(now)
    assert group.ledger.jobs["1"].unmovable.startswith("not_saved: ")
    group.ended = ("1",)
    group.give_to_one(1123)
    group.poll(1124)
    assert group.restarts() == [1, 0]
    assert "as it did not save within 20 s of the signal" in next(
        one for one in group.why("1") if one.startswith("restart:")
    )
