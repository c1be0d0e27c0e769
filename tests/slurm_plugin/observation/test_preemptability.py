"""Which running jobs may be preempted, by a policy or for the owner of cells, and which may run beyond their virtual cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tiresias.protocol import control
from tiresias.protocol.job_kind import Key
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import JobState
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import Config, Paths
from tiresias.slurm_plugin.observation.preemptability import UNKNOWN_SAVER, UNPROVEN, Preemptability
from tiresias.slurm_plugin.observation.reports import Reports
from tiresias.slurm_plugin.state.intents import IntentKind
from tiresias.slurm_plugin.state.ledger import Ledger
from tiresias.slurm_plugin.state.save_proof import LATE_SECONDS

Make = Callable[..., SlurmJob]
NOW = 1100.0
NOT_SAVED = "not_saved: 120"
SCRIPT, OTHER_SCRIPT = "0123456789abcdef", "fedcba9876543210"


class Subject:
    """Job 1 with its row, its report and what is found out about it."""

    def __init__(self, folder: Path, ledger: Ledger, job: SlurmJob) -> None:
        self.job, self.ledger, self._root = replace(job, uid=os.getuid()), ledger, folder / "control"
        self.config = Config(paths=Paths(control=self._root), policy=PolicyConfig(cooldown=300.0, max_preemptions=2))
        ledger.apply(SlurmSnapshot(NOW, (self.job,), ()))
        self.row = ledger.jobs["1"]

    def report(self, ready: bool, restart: int = 0) -> None:
        folder = control.job_folder(self._root, os.getuid(), "1")
        folder.mkdir(parents=True, exist_ok=True)
        control.write(folder, control.SUPERVISOR, {"restart": restart, "state": "running"})
        if ready:
            control.write(folder, control.PROGRAM, {"restart": restart, "ready": True, "step": 1})

    @property
    def found(self) -> Preemptability:
        return Preemptability(self.config, self.ledger, Reports(self._root))

    def why_kept(self) -> str:
        return self.found.why_kept(self.job)

    def why_confined(self) -> str:
        return self.found.why_confined(self.job, NOW)


@pytest.fixture
def run(tmp_path: Path, ledger: Ledger, running: Make) -> Subject:
    """Job 1 runs and reports nothing."""
    return Subject(tmp_path, ledger, running(1000))


@pytest.fixture
def waits(tmp_path: Path, ledger: Ledger, pending: Make) -> Subject:
    """Job 1 waits for its first run."""
    return Subject(tmp_path, ledger, pending())


def test_what_protects_from_a_policy_does_not_protect_from_the_owner_of_cells(run: Subject) -> None:
    run.report(ready=True)
    run.row.last_preempted, run.row.preemptions = NOW - 1, 2
    assert run.found.why_unmovable(run.job, NOW).startswith("was preempted 2 times already")
    assert run.why_kept() == ""
    run.row.preemptions = 0
    assert "policy.cooldown" in run.found.why_unmovable(run.job, NOW)
    found = run.found
    found.begin_cycle({"1": "AssocGrpGRES"}, "", NOW)
    assert found.why_kept(run.job) == ""


def test_between_two_decisions_no_policy_preempts(run: Subject) -> None:
    run.config, run.row.opportunistic = replace(run.config, policy=PolicyConfig(interval=600.0)), "restart"
    run.report(ready=True)
    found = run.found
    for now, reason in (
        (NOW, ""),
        (NOW + 1, "preemptions and changes of size are decided again in 99 s (policy.interval)"),
        (NOW + 101, ""),
    ):
        found.begin_cycle({}, "", now)
        assert found.why_unmovable(run.job, now) == reason
        assert found.why_kept(run.job) == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"batch": False}, "an srun or salloc allocation cannot be requeued"),
        ({"requeue": False}, "submitted with --no-requeue"),
    ],
)
def test_what_cannot_be_requeued_is_kept_and_confined(run: Subject, changes: dict[str, bool], reason: str) -> None:
    run.row.opportunistic = "restart"
    run.job = replace(run.job, **changes)  # type: ignore[arg-type]
    assert (run.why_kept(), run.why_confined()) == (reason, reason)
    assert run.found.why_unmovable(run.job, NOW) == reason


def test_an_operators_pause_and_a_partition_that_comes_first_keep_a_run(run: Subject) -> None:
    run.row.opportunistic = "restart"
    found = run.found
    found.begin_cycle({}, "preemptions are paused", NOW)
    assert found.why_kept(run.job) == "preemptions are paused"
    found.unprotected = {"gpu01": "urgent"}
    assert found.why_kept(run.job) == "partition urgent comes before its own on gpu01 (PriorityTier)"


@pytest.mark.parametrize(
    ("choice", "report", "kept"),
    [
        ("restart", "none", ""),
        ("restart", "not ready", ""),
        ("yes", "none", UNPROVEN),
        ("yes", "not ready", UNPROVEN),
        ("yes", "ready", ""),
        ("no", "not ready", UNPROVEN),
        ("saves", "none", UNPROVEN),
        ("saves", "not ready", ""),
        ("", "not ready", UNPROVEN),
    ],
)
def test_a_run_that_does_not_save_is_ended_only_where_its_owner_accepts_it_or_it_was_let_in_as_a_saver(
    run: Subject, choice: str, report: str, kept: str
) -> None:
    """Without a report it is not known whether it could save: its control folder may be unavailable."""
    run.row.opportunistic = choice
    if report != "none":
        run.report(ready=report == "ready")
    assert run.why_kept() == kept


def test_a_run_whose_kind_has_saved_and_that_has_not_begun_to_train_may_be_ended(run: Subject) -> None:
    run.row.opportunistic = "yes"
    run.report(ready=False)
    run.ledger.usage.note(run.row, 0, save=0.5)
    assert run.why_kept() == ""


def test_a_late_save_keeps_a_run_from_policies_and_not_from_the_owner_of_cells(run: Subject) -> None:
    run.row.opportunistic, run.row.unmovable = "yes", NOT_SAVED
    run.report(ready=True)
    assert run.found.why_unmovable(run.job, NOW) == "did not save within 120 s of the signal"
    assert run.why_kept() == ""
    assert run.found.kind_of_preemption(run.job) == IntentKind.RESTART
    run.row.unmovable = "preemption_refused: busy"
    assert run.why_kept() == "Slurm refused its preemption: busy"


def test_a_run_that_saves_is_preempted_by_checkpoint_whatever_its_owner_accepts(run: Subject) -> None:
    run.row.opportunistic = "restart"
    assert run.found.kind_of_preemption(run.job) == IntentKind.RESTART
    run.report(ready=True)
    assert run.found.kind_of_preemption(run.job) == IntentKind.PREEMPT
    run.job = replace(run.job, restarts=1)
    assert run.found.kind_of_preemption(run.job) == IntentKind.RESTART, "the report is of an older run"


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ("restart", ""),
        ("saves", ""),
        ("no", "its owner submitted it with --opportunistic=no"),
        ("yes", UNKNOWN_SAVER),
        ("", UNKNOWN_SAVER),
    ],
)
def test_a_waiting_job_is_confined_unless_it_can_be_preempted_later(waits: Subject, choice: str, reason: str) -> None:
    waits.row.opportunistic = choice
    assert waits.why_confined() == reason


def test_a_job_is_not_confined_once_one_of_its_script_has_saved(waits: Subject, running: Make) -> None:
    """Whatever name and GPUs that job had; not before its own choice is known, which may be `no`."""
    waits.row.kind, uid = Key("train", SCRIPT, 1).file, os.getuid()
    others = [replace(running(1000), id=str(number), raw_id=number, uid=uid) for number in (2, 3)]
    waits.ledger.apply(SlurmSnapshot(NOW, (waits.job, *others), ()))
    kinds = {"2": Key("other name", SCRIPT, 8).file, "3": Key("train", OTHER_SCRIPT, 1).file}
    for job, kind in kinds.items():
        waits.ledger.jobs[job].kind = kind
    waits.row.opportunistic = "yes"
    waits.ledger.usage.note(waits.ledger.jobs["3"], 0, save=0.5)
    assert waits.why_confined() == UNKNOWN_SAVER
    waits.ledger.usage.note(waits.ledger.jobs["2"], 0, pause=0.5)
    assert waits.why_confined() == UNKNOWN_SAVER, "it may have been requeued for another reason, such as a failed node"
    waits.ledger.usage.note(waits.ledger.jobs["2"], 0, save=0.5)
    assert waits.why_confined() == ""
    waits.row.opportunistic = ""
    assert waits.why_confined() == UNKNOWN_SAVER
    for row in waits.ledger.jobs.values():
        waits.ledger.save(row)
    again = Ledger(waits.ledger._journal, Scope(frozenset({"gpu"})))
    assert again.saves.has_saved(again.jobs["1"], ()), "the journal has it after a kill"


def test_a_script_of_another_user_shows_nothing(waits: Subject, running: Make) -> None:
    waits.row.kind, waits.row.opportunistic = Key("train", SCRIPT, 1).file, "yes"
    other = replace(running(1000), id="2", raw_id=2, uid=os.getuid() + 1)
    waits.ledger.apply(SlurmSnapshot(NOW, (waits.job, other), ()))
    waits.ledger.jobs["2"].kind = waits.row.kind
    waits.ledger.usage.note(waits.ledger.jobs["2"], 0, save=0.5)
    assert waits.why_confined() == UNKNOWN_SAVER


def test_jobs_of_a_kind_that_was_late_are_confined_for_a_while(waits: Subject) -> None:
    waits.row.opportunistic = "saves"
    waits.ledger.saves.note_late(waits.row, NOW - 600)
    assert waits.why_confined() == "a job of its kind did not save in time: not there for another 3000 s"
    assert waits.found.why_confined(waits.job, NOW + LATE_SECONDS) == ""
    waits.row.opportunistic = "restart"
    assert waits.why_confined() == ""


def test_the_columns_of_the_snapshot(run: Subject) -> None:
    run.row.opportunistic = "restart"
    jobs = [run.job, run.job, run.job]
    states = np.array([JobState.RUNNING, JobState.RELEASING, JobState.RUNNING])
    columns = run.found.columns(jobs, states, np.array([False, False, True]), NOW)
    found = [None if column is None else column.tolist() for column in columns]
    assert found == [[True, True, True], [True, False, True], [False, False, False]]
    run.row.opportunistic = "saves"
    saves = run.found.columns(jobs, states, np.array([False, False, True]), NOW).saves
    assert saves is not None
    assert saves.all()


def test_the_choice_and_what_was_lost_survive_a_kill(run: Subject, tmp_path: Path) -> None:
    run.ledger.requests.note_choice(run.row, "saves")
    run.ledger.requests.note_choice(run.row, "yes")
    assert run.row.opportunistic == "saves", "the supervisor does not know what tsbatch saw in the script"
    run.ledger.requests.note_choice(run.row, "restart")
    run.ledger.requests.note_choice(run.row, "")
    run.ledger.usage.note(run.row, 0, lost=12.5)
    assert run.ledger._journal.live_jobs()[0].opportunistic == "restart"
    assert run.ledger._journal.live_runs()[0].lost == 12.5
