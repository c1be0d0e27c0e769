"""The two machines of act.py where a real Slurm cannot be made to fail on cue.

`Edge` stands at the very edge, in place of a back end: a handful of records and a switch that makes one verb fail, before
or after it took effect. Everything else is real: journal, ledger, actor. tests/slurm_plugin/controller/ has the real Slurm.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tiresias.protocol.control import JobReport
from tiresias.scheduler.model import Plan, Preemption, Start
from tiresias.slurm_plugin.act import HOLDS, Actor
from tiresias.slurm_plugin.backends.interface import (
    TOP_PRIORITY,
    JobRefused,
    NodeShare,
    NoSuchJob,
    NotRequeueable,
    RequestChange,
    SlurmJob,
    SlurmSnapshot,
    SlurmUnavailable,
)
from tiresias.slurm_plugin.backends.rules import SlurmRules
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import Preemption as PreemptionConfig
from tiresias.slurm_plugin.state.intents import Intent
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.state.ledger import Ledger

Make = Callable[..., SlurmJob]
NODES = (("gpu02", 4),)
NOTHING = np.zeros(0, np.int64)
CONFIG = PreemptionConfig(deadline=20.0, start_timeout=30.0, backoff=60.0)


class Edge:
    """Slurm as far as one job needs it."""

    name, why = "edge", ""

    def __init__(self, job: SlurmJob) -> None:
        self.jobs = {job.id: job}
        self.calls: list[str] = []
        self.failing: dict[str, tuple[str, Exception]] = {}  # verb: ("before" | "after" it took effect, error); once
        self.starts = True  # a released job runs at once
        self.boot = 0.0
        self.changed_by: dict[str, dict[str, object]] = {}  # what else a pin by this change changes
        self._own: dict[str, object] = {}  # of that, as the owner asked for it

    def fail(self, verb: str, error: Exception, when: str = "before") -> None:
        self.failing[verb] = (when, error)

    def change(self, job_id: str = "1", **changes: object) -> None:
        self.jobs[job_id] = replace(self.jobs[job_id], **changes)  # type: ignore[arg-type]

    def _do(self, verb: str, effect: Callable[[], None]) -> None:
        self.calls.append(verb)
        when, error = self.failing.pop(verb, ("", None))
        if error and when == "before":
            raise error
        effect()
        if error:
            raise error

    def version(self) -> str:
        return "26.05.0"

    def booted(self) -> float:
        return self.boot

    def topology(self) -> str:
        return ""

    def rules(self) -> SlurmRules:
        return SlurmRules()

    def snapshot(self) -> SlurmSnapshot:
        return SlurmSnapshot(0.0, tuple(self.jobs.values()), ())

    def job(self, job_id: str) -> SlurmJob:
        self._do("job", lambda: None)
        if job_id not in self.jobs:
            raise NoSuchJob(f"job {job_id}: gone")
        return self.jobs[job_id]

    def hold(self, job_id: str) -> None:
        self._do("hold", lambda: self.change(job_id, priority=0, reason="JobHeldAdmin"))

    def lift(self, job_id: str) -> None:
        self._do("lift", lambda: self._lift(job_id))

    def _lift(self, job_id: str) -> None:
        self.change(job_id, priority=1, reason="None")
        nodes = self.jobs[job_id].required_nodes
        if self.starts and nodes and self.jobs[job_id].state == "PENDING":
            shares = tuple(NodeShare(node, 4, 4, 400) for node in nodes)
            self.change(job_id, state="RUNNING", reason="None", start_time=1500, shares=shares)

    def release(self, job_id: str) -> None:
        self._do("release", lambda: self.change(job_id, priority=1, reason="None"))

    def begin_now(self, job_id: str) -> None:
        self._do("begin_now", lambda: self.change(job_id, begin_time=0))

    def pin(self, job_id: str, change: RequestChange) -> None:
        self._do("pin", lambda: self._pin(job_id, change))

    def _pin(self, job_id: str, change: RequestChange) -> None:
        way = "required" if change.required else "only"
        for name in self.changed_by.get(way, {}):
            self._own.setdefault(name, getattr(self.jobs[job_id], name))
        self.change(job_id, required_nodes=change.required or change.only or (), **self.changed_by.get(way, {}))

    def prioritize(self, job_id: str) -> None:
        self._do("prioritize", lambda: self.change(job_id, priority=TOP_PRIORITY))

    def unpin(self, job_id: str, change: RequestChange) -> None:
        self._do("unpin", lambda: self._unpin(job_id, change))

    def _unpin(self, job_id: str, change: RequestChange) -> None:
        if change.nodes:
            self.change(job_id, min_nodes=change.nodes[0])
        self.change(job_id, required_nodes=change.required or (), **self._own)

    def signal(self, job_id: str, signal: str) -> None:
        self._do("signal", lambda: None)

    def requeue(self, job_id: str) -> int:
        self._do("requeue", lambda: self._requeue(job_id))
        return 1499

    def _requeue(self, job_id: str) -> None:
        job = self.jobs[job_id]
        assert job.state in ("RUNNING", "SUSPENDED"), "a requeue for a job that does not run"
        self.change(
            job_id, state="PENDING", restarts=job.restarts + 1, shares=(), submit_time=1499, start_time=0, end_time=1499
        )

    def requeue_together(self, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            self.requeue(job_id)

    def close(self) -> None:
        pass


class Desk:
    """The actor at work: `look` is a cycle's snapshot and one advance."""

    def __init__(self, journal: Journal, job: SlurmJob) -> None:
        self.slurm, self.journal, self.report = Edge(job), journal, JobReport()
        self.begin_life()

    def begin_life(self) -> None:
        """As a controller does that has just started: all it knows is in the journal."""
        self.ledger = Ledger(self.journal, Scope(frozenset({"gpu"})))
        self.actor = Actor(self.slurm, self.journal, self.ledger, CONFIG, lambda job: self.report)
        self.see()

    def see(self) -> list[SlurmJob]:
        managed = self.ledger.apply(self.slurm.snapshot())
        self.actor.see(managed)
        return managed

    def look(self, now: float) -> None:
        self.see()
        self.actor.advance(now)

    def preempt(self, now: float = 1100.0) -> None:
        self.actor.begin(Plan(NOTHING, NOTHING, NOTHING, preemptions=(Preemption("1", "2"),)), now)

    def start(self, now: float = 1100.0) -> None:
        self.actor.begin(Plan(NOTHING, NOTHING, NOTHING, starts=(Start("1", NODES),)), now)

    def parks(self, restart: int = 0) -> None:
        self.report = JobReport(restart, "parked", True, 7)

    @property
    def row(self) -> JobRow:
        return self.ledger.jobs["1"]

    @property
    def job(self) -> SlurmJob:
        return self.slurm.jobs["1"]

    def moves(self) -> list[Intent]:
        """What is under way with job 1."""
        return [one for one in self.journal.open_intents() if one.id == "1"]

    def said(self) -> list[str]:
        """Of job 1."""
        return [f"{one.action}: {one.why}" for one in self.actor.context.news if one.id == "1"]


@pytest.fixture
def runs(journal: Journal, running: Make, pending: Make) -> Desk:
    """A job that runs since 1000 and may be preempted, and another one that waits for its GPUs."""
    desk = Desk(journal, running(1000))
    desk.slurm.jobs["2"] = pending(id="2", raw_id=2, priority=1, reason="None")
    desk.see()
    return desk


@pytest.fixture
def waits(journal: Journal, pending: Make) -> Desk:
    """A job that we hold."""
    desk = Desk(journal, pending(priority=1, reason="None"))
    desk.actor.hold(desk.see(), 1001)
    assert desk.row.held
    return desk


# -- Slurm does not answer ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("life", ["same life", "next life"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("verb", "step"),
    [
        ("hold", "hold"),
        ("signal", "signal"),
        ("job", "parked"),
        ("pin", "parked"),
        ("lift", "parked"),
        ("prioritize", "parked"),
        ("requeue", "requeue"),
    ],
)
def test_a_preemption_stays_where_it_is_and_the_retry_completes(
    runs: Desk, verb: str, step: str, when: str, life: str
) -> None:
    runs.parks()
    runs.preempt()
    runs.slurm.fail(verb, SlurmUnavailable("no answer"), when)
    with pytest.raises(SlurmUnavailable):
        runs.actor.advance(1100)
    assert [intent.step for intent in runs.moves()] == [step]
    if life == "next life":
        runs.begin_life()
    runs.look(1101)
    assert runs.moves() == []
    assert (runs.job.state, runs.job.restarts, runs.job.priority) == ("PENDING", 1, 0), "requeued once, and held"
    assert (runs.row.held, runs.row.preemptions, runs.row.last_preempted) == (True, 1, 1101)


@pytest.mark.parametrize("life", ["same life", "next life"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", ["job", "pin", "lift"])
def test_a_start_stays_where_it_is_and_the_retry_completes(waits: Desk, verb: str, when: str, life: str) -> None:
    waits.start()
    waits.slurm.fail(verb, SlurmUnavailable("no answer"), when)
    with pytest.raises(SlurmUnavailable):
        waits.actor.advance(1100)
    assert [intent.step for intent in waits.journal.open_intents()] == ["start"]
    if life == "next life":
        waits.begin_life()
    waits.look(1101)
    waits.look(1102)
    assert waits.journal.open_intents() == []
    assert (waits.job.state, waits.job.restarts) == ("RUNNING", 0)
    assert any(one == "running: on gpu02:4" for one in waits.said())


def test_a_life_that_ended_right_after_the_release_leaves_no_hold_in_the_books(waits: Desk) -> None:
    """Else an admin's hold, placed while the job runs, would pass for ours when it is requeued."""
    waits.start()
    waits.slurm.fail("lift", SlurmUnavailable("no answer"), "after")
    with pytest.raises(SlurmUnavailable):
        waits.actor.advance(1100)
    waits.begin_life()
    assert waits.row.held, "so it was written down"
    waits.look(1101)
    waits.look(1102)
    assert (waits.job.state, waits.row.held) == ("RUNNING", False)
    waits.slurm.change(priority=0, reason="JobHeldAdmin")
    waits.slurm._requeue("1")
    assert not waits.ledger.free(waits.see()[0])


def test_a_deadline_does_not_grow_when_the_clock_is_set_back(runs: Desk) -> None:
    runs.preempt(4600)
    runs.actor.advance(4600)
    runs.look(1000)
    runs.look(1020)
    assert runs.moves() == []
    assert "did not save within 20 s" in runs.row.unmovable


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_job_that_could_not_save_is_released_once_slurm_answers(runs: Desk, when: str) -> None:
    runs.preempt()
    runs.actor.advance(1100)
    runs.slurm.fail("release", SlurmUnavailable("no answer"), when)
    with pytest.raises(SlurmUnavailable):
        runs.actor.advance(1121)
    assert [intent.step for intent in runs.moves()] == ["unhold"]
    runs.begin_life()
    runs.look(1122)
    assert runs.moves() == []
    assert (runs.job.state, runs.job.priority > 0, runs.row.held) == ("RUNNING", True, False)
    assert "did not save within 20 s" in runs.row.unmovable


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", ["hold", "job"])
def test_a_job_that_slurm_did_not_start_is_held_again_once_it_answers(waits: Desk, verb: str, when: str) -> None:
    waits.slurm.starts = False
    waits.start()
    waits.actor.advance(1100)
    waits.slurm.change(reason="PartitionTimeLimit")
    waits.see()
    waits.slurm.fail(verb, SlurmUnavailable("no answer"), when)
    with pytest.raises(SlurmUnavailable):
        waits.actor.advance(1131)
    assert [intent.step for intent in waits.journal.open_intents()] == ["rehold"]
    waits.actor.advance(1132)
    assert waits.journal.open_intents() == []
    assert (waits.job.priority, waits.row.held, waits.row.not_before) == (0, True, 1192)
    assert waits.said()[-1] == "not started: Slurm reports PartitionTimeLimit; tried again in 60 s"


@pytest.mark.parametrize("verb", ["job", "release", "unpin", "hold"])
def test_what_cannot_be_released_is_told_with_the_way_out(waits: Desk, verb: str) -> None:
    waits.slurm.starts = False
    waits.start()
    waits.actor.advance(1100)
    waits.slurm.fail(verb, SlurmUnavailable("no answer"))
    assert waits.actor.release_all(1101) == ["job 1 stays held: no answer; scontrol release 1"]
    waits.begin_life()
    assert waits.actor.release_all(1102) == []
    assert (waits.job.priority, waits.job.required_nodes, waits.row.pinned, waits.row.held) == (1, (), False, False)


@pytest.mark.parametrize(
    ("boot", "pin", "ours"), [(1100.0, "gpu02", True), (1099.0, "gpu02", False), (2000.0, "gpu07", False)]
)
def test_a_hold_is_ours_where_slurmctld_was_started_since_and_has_our_pin(
    waits: Desk, boot: float, pin: str, ours: bool
) -> None:
    """It was killed between the two calls of our start; else an admin holds it."""
    waits.slurm.starts = False
    waits.start()
    waits.actor.advance(1100.5)
    waits.slurm.change(priority=0, reason="JobHeldAdmin", required_nodes=(pin,))
    waits.slurm.boot = boot
    waits.see()
    waits.actor.confirm(1101.0)
    assert waits.row.held == ours
    waits.actor.advance(1140.0)
    assert waits.said()[-1].startswith(
        "not started: Slurm reports" if ours else "not started: its owner, an administrator or a dependency holds it"
    )
    assert waits.actor.release_all(1141.0) == []
    assert (waits.job.priority > 0) == ours


@pytest.mark.parametrize(("boot", "restarts", "ours"), [(1100.0, 0, True), (1099.0, 0, False), (2000.0, 1, False)])
def test_a_hold_is_ours_where_slurmctld_has_forgotten_the_whole_start(
    waits: Desk, boot: float, restarts: int, ours: bool
) -> None:
    """It ran, was unpinned, and slurmctld came back with what it had saved before; unless it knows of that run."""
    waits.slurm.starts = False
    waits.start()
    waits.actor.advance(1100.5)
    waits.row.pinned = False
    waits.slurm.change(priority=0, reason="JobHeldAdmin", required_nodes=(), restarts=restarts)
    waits.slurm.boot = boot
    waits.see()
    waits.actor.confirm(1101.0)
    assert waits.row.held == ours


@pytest.mark.parametrize(("submitted", "ours"), [(1050, True), (1103, False)])
def test_a_hold_is_ours_where_slurmctld_has_forgotten_even_the_end(waits: Desk, submitted: int, ours: bool) -> None:
    """It was requeued, started and over; what slurmctld shows now looks like a new job, and may be one: the id was given again."""
    waits.start()
    waits.actor.advance(1100.5)
    waits.look(1101)
    waits.slurm.change(state="COMPLETED", end_time=1502)
    waits.look(1102)
    waits.slurm.change(state="PENDING", submit_time=submitted, start_time=0, end_time=0, shares=())
    waits.slurm.change(priority=0, reason="JobHeldAdmin", required_nodes=())
    waits.slurm.boot = 1103.0
    waits.see()
    waits.actor.confirm(1104.0)
    assert waits.row.held == ours


@pytest.mark.parametrize(("boot", "restarts", "ours"), [(1200.0, 1, True), (1099.0, 1, False), (1200.0, 2, False)])
def test_a_hold_is_ours_where_slurmctld_has_forgotten_that_a_job_was_let_go_on(
    runs: Desk, boot: float, restarts: int, ours: bool
) -> None:
    """It was to be preempted and could not be; then its node lost it, and Slurm requeued it."""
    runs.preempt()
    for now in (1100.5, 1500.0, 1501.0):
        runs.look(now)
    assert not runs.actor.intents
    assert not runs.row.held
    runs.slurm._requeue("1")
    runs.slurm.change(priority=0, reason="JobHeldAdmin", restarts=restarts)
    runs.slurm.boot = boot
    runs.see()
    runs.actor.confirm(1502.0)
    assert runs.row.held == ours


def test_a_hold_is_ours_where_slurmctld_shows_an_earlier_pin(waits: Desk) -> None:
    waits.slurm.starts = False
    waits.start()
    for now in (1100.5, 1140.0):  # not started, held again
        waits.look(now)
    assert waits.row.held
    waits.actor.begin(Plan(NOTHING, NOTHING, NOTHING, starts=(Start("1", (("gpu03", 4),)),)), 1200.0)
    waits.look(1200.5)
    waits.slurm.change(priority=0, reason="JobHeldAdmin", required_nodes=("gpu02",))
    waits.slurm.boot = 1201.0
    waits.see()
    waits.actor.confirm(1202.0)
    assert waits.row.held


@pytest.mark.parametrize(("boot", "ours"), [(1100.0, True), (1099.0, False)])
def test_a_pin_is_ours_where_slurmctld_has_forgotten_that_it_was_taken_off(
    waits: Desk, boot: float, ours: bool
) -> None:
    """Else its owner wants the nodes of its last run again."""
    own = waits.row.min_nodes
    waits.start()
    waits.actor.advance(1100.5)
    waits.look(1101)
    waits.slurm._requeue("1")
    waits.slurm.change(priority=0, reason="JobHeldAdmin", required_nodes=("gpu02",), min_nodes=7)
    waits.row.held, waits.row.pinned = True, False
    waits.slurm.boot = boot
    waits.see()
    waits.actor.confirm(1102.0)
    assert (waits.row.pinned, waits.row.min_nodes, waits.row.required) == (
        (True, own, "") if ours else (False, 7, "gpu02")
    )
    waits.actor.unpin(waits.see(), 1103.0)
    assert waits.job.required_nodes == (() if ours else ("gpu02",))


# -- Slurm says no ------------------------------------------------------------------------------------------------------


def test_a_refusal_because_the_run_is_over_is_no_refusal(runs: Desk) -> None:
    """The owner requeued the job between our look and our signal."""
    runs.preempt()
    runs.slurm._requeue("1")
    runs.slurm.fail("signal", JobRefused("job 1: is not running"))
    runs.actor.advance(1100)
    runs.look(1101)
    assert runs.moves() == []
    assert (runs.row.held, runs.row.unmovable, runs.job.priority) == (True, "", 0)


def test_a_job_that_may_not_be_signalled_runs_on_unheld(runs: Desk) -> None:
    runs.preempt()
    runs.slurm.fail("signal", JobRefused("job 1: Access denied"))
    runs.actor.advance(1100)
    assert runs.moves() == []
    assert (runs.job.state, runs.job.priority, runs.row.held) == ("RUNNING", 1, False)
    assert runs.row.unmovable == "Slurm refused its preemption: job 1: Access denied"


def test_a_job_that_cannot_be_requeued_runs_on_unheld(runs: Desk) -> None:
    runs.parks()
    runs.preempt()
    runs.slurm.fail("requeue", NotRequeueable("job 1: only batch jobs"))
    runs.actor.advance(1100)
    assert runs.moves() == []
    assert (runs.job.state, runs.job.restarts, runs.job.priority, runs.row.held) == ("RUNNING", 0, 1, False)
    assert runs.row.unmovable == "job 1: only batch jobs"


def test_a_start_that_is_refused_again_and_again_comes_back_ever_later(waits: Desk) -> None:
    now, waited = 1100.0, []
    for _ in range(6):
        waits.start(now)
        waits.slurm.fail("pin", JobRefused("job 1: Requested node configuration is not available"))
        waits.actor.advance(now)
        assert waits.journal.open_intents() == []
        waited.append(waits.row.not_before - now)
        now = waits.row.not_before
    assert waited == [60, 120, 240, 480, 960, 960]
    waits.start(now)
    waits.look(now)
    waits.look(now + 1)
    assert (waits.row.failures, waits.row.not_before) == (0, 0.0)


# -- owners, at the moments that are too short to meet ------------------------------------------------------------------


def test_a_job_that_vanishes_while_it_drains_has_ended(runs: Desk) -> None:
    runs.parks()
    runs.preempt()
    runs.slurm.fail("job", SlurmUnavailable("no answer"), "after")
    with pytest.raises(SlurmUnavailable):
        runs.actor.advance(1100)
    del runs.slurm.jobs["1"]
    runs.look(1101)
    runs.look(1102)
    assert runs.moves() == []
    assert runs.said()[-1] == "ended: while it was being preempted"


def test_a_job_that_is_cleaned_up_is_not_parked_yet(runs: Desk) -> None:
    runs.parks()
    runs.preempt()
    original = runs.slurm._requeue

    def requeue(job_id: str) -> None:
        original(job_id)
        runs.slurm.change(completing=True)

    runs.slurm._requeue = requeue  # type: ignore[method-assign]
    runs.actor.advance(1100)
    assert [intent.step for intent in runs.moves()] == ["drain"]
    runs.slurm.change(completing=False)
    runs.look(1103)
    assert runs.said()[-1] == "parked: 3.00 s after the decision"


def test_a_hold_that_its_owner_places_before_our_start_wins(waits: Desk) -> None:
    waits.start()
    waits.slurm.change(reason="JobHeldUser")
    waits.actor.advance(1100)
    assert waits.journal.open_intents() == []
    assert "pin" not in waits.slurm.calls
    assert waits.actor.release_all(1101) == []
    assert (waits.job.priority, waits.job.reason) == (0, "JobHeldUser")


def test_a_hold_that_its_owner_places_while_slurm_hesitates_wins(waits: Desk) -> None:
    waits.slurm.starts = False
    waits.start()
    waits.actor.advance(1100)
    waits.slurm.change(priority=0, reason="JobHeldUser")
    waits.look(1131)
    assert waits.journal.open_intents() == []
    assert waits.job.reason == "JobHeldUser"
    assert waits.row.not_before == 0


def test_a_job_that_waits_again_gets_its_own_request_back(waits: Desk) -> None:
    waits.start()
    waits.look(1100)
    waits.look(1101)
    assert waits.job.required_nodes == ("gpu02",)
    waits.slurm._requeue("1")  # by its owner
    waits.actor.hold(waits.see(), 1102)
    waits.actor.unpin(waits.see(), 1102)
    assert (waits.job.required_nodes, waits.job.priority, waits.row.pinned) == ((), 0, False)


def test_nodes_that_slurm_did_not_start_a_job_on_come_last_for_a_while(waits: Desk) -> None:
    waits.slurm.starts = False
    waits.start()
    waits.actor.advance(1100)
    waits.slurm.change(reason="ReqNodeNotAvail")
    waits.look(1131)
    avoided = waits.ledger.avoids["1"]
    assert (avoided.nodes, avoided.until) == (frozenset({"gpu02"}), 1131 + 2 * 60)


def test_a_parked_job_that_was_given_up_is_collected(runs: Desk) -> None:
    runs.preempt()
    runs.actor.advance(1100)
    runs.actor.advance(1121)
    assert runs.row.unmovable
    runs.actor.collect(runs.see(), 1122)
    assert runs.moves() == [], "it has not saved yet"
    runs.parks()
    runs.actor.collect(runs.see(), 1123)
    runs.actor.advance(1123)
    assert (runs.job.restarts, runs.row.preemptions) == (1, 1)


# -- the time limit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("why", "preemptions"), [("limit", 0), ("", 1)])
def test_a_job_that_parked_near_its_time_limit_is_requeued(runs: Desk, why: str, preemptions: int) -> None:
    """Its limit of 3600 s is no preemption, so it counts for no cap and no cooldown."""
    runs.report = JobReport(0, "parked", True, 7, why=why, save=2.5)
    runs.actor.collect(runs.see(), 2000)
    assert runs.actor.intents == {}, "far from its limit nobody reads what it says"
    runs.actor.collect(runs.see(), 4400)
    assert [intent.kind for intent in runs.actor.intents.values()] == ["renew" if why else "preempt"]
    runs.look(4401)
    assert (runs.job.state, runs.job.restarts, runs.job.priority) == ("PENDING", 1, 0), (
        "requeued, and held for its turn"
    )
    assert (runs.row.preemptions, bool(runs.row.last_preempted)) == (preemptions, bool(preemptions))
    assert runs.journal.runs("1@1000")[0].save == 2.5
    assert any("before its time limit" in line for line in runs.said()) == bool(why)


def test_a_job_without_a_limit_is_not_asked(journal: Journal, running: Make) -> None:
    desk = Desk(journal, running(1000, time_limit=0))
    desk.report = JobReport(0, "parked", True, 7, why="limit")
    desk.actor.collect(desk.see(), 10**7)
    assert desk.actor.intents == {}


# -- what it costs ------------------------------------------------------------------------------------------------------


def test_what_a_preemption_cost_is_journaled(runs: Desk) -> None:
    runs.preempt(1099)
    runs.look(1100)
    runs.report = JobReport(0, "parked", True, 7, save=1.25)
    runs.look(1102.5)
    (run,) = runs.journal.runs("1@1000")
    assert (run.save, run.pause) == (1.25, 2.5)
    runs.begin_life()
    assert runs.ledger.costs["1"] != runs.ledger.costs["1"], "what a start costs is not known yet"
    runs.ledger.note(runs.row, 0, restore=30.0, redone=3)
    assert runs.ledger.costs["1"] == 32.5
    runs.begin_life()
    assert runs.ledger.costs["1"] == 32.5
    (run,) = runs.journal.runs("1@1000")
    assert (run.restore, run.redone) == (30.0, 3)


# -- storms -------------------------------------------------------------------------------------------------------------


def storm(desk: Desk, jobs: list[SlurmJob], before: float = math.inf) -> list[str]:
    """What is held of these new jobs, by name."""
    desk.slurm.jobs = {job.id: job for job in jobs}
    held: list[str] = []
    desk.slurm.hold = held.append  # type: ignore[method-assign,assignment]
    desk.actor.hold(desk.see(), 1100.0, before)
    return held


def test_a_storm_is_held_by_and_by_those_first_whom_slurm_could_start_first(
    waits: Desk, pending: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiresias.slurm_plugin.act.time", SimpleNamespace(monotonic=lambda: 0.0))
    jobs = [pending(id=str(n), raw_id=n, priority=1, begin_time=9000 - n) for n in range(2, HOLDS + 102)]
    assert storm(waits, jobs) == [job.id for job in reversed(jobs)][:HOLDS]
    assert waits.actor.context.allowance.postponed == 100
    assert sum(row.held for row in waits.ledger.jobs.values()) == HOLDS


def test_an_array_is_held_with_one_call(waits: Desk, pending: Make) -> None:
    tasks = [pending(id=f"7_{n}", raw_id=7, array_id=7, priority=1) for n in range(5000)]
    assert storm(waits, tasks) == ["7_[0-4999]"]
    assert all(row.held for row in waits.ledger.jobs.values())


def test_a_slow_slurmctld_is_asked_for_a_second_and_longer_for_the_urgent_ones(
    waits: Desk, pending: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady = itertools.count(step=0.3)  # seconds that each look at the clock is later than the one before
    monkeypatch.setattr("tiresias.slurm_plugin.act.time", SimpleNamespace(monotonic=lambda: next(steady)))
    jobs = [pending(id=str(n), raw_id=n, priority=1) for n in range(2, 32)]
    assert storm(waits, jobs) == ["2", "3", "4"]
    assert waits.actor.context.allowance.postponed == 27
    assert len(storm(waits, jobs, before=1e9)) == 16


def test_whom_slurm_could_not_start_soon_is_held_later(waits: Desk, pending: Make) -> None:
    soon, late = (pending(id=str(n), raw_id=n, priority=1, begin_time=1000 * n) for n in (2, 3))
    assert storm(waits, [late, soon], before=2500.0) == ["2"]
    assert waits.actor.context.allowance.postponed == 0


def test_what_waits_for_us_only_is_released_without_a_look_at_each(waits: Desk, pending: Make) -> None:
    tasks = [pending(id=f"7_{n}", raw_id=7, array_id=7, priority=1, reason="None") for n in range(50)]
    storm(waits, tasks)
    waits.slurm.jobs = {job.id: replace(job, priority=0, reason="JobHeldAdmin") for job in tasks}
    lifted: list[str] = []
    waits.slurm.lift = lifted.append  # type: ignore[method-assign,assignment]
    assert waits.actor.release_all(1200.0) == []
    assert lifted == ["7_[0-49]"]
    assert not any(row.held for row in waits.ledger.jobs.values())


def test_who_was_set_aside_for_us_may_start_at_once_when_we_leave(waits: Desk, pending: Make) -> None:
    """One that ended a moment ago, one that we hold by now, one that we do not, and one whose owner wants it to begin later."""
    jobs = [pending(id=str(number), raw_id=number, priority=1, begin_time=1290) for number in range(2, 6)]
    storm(waits, jobs[1:2])
    held = replace(jobs[1], priority=0, reason="JobHeldAdmin")
    waits.slurm.jobs = {job.id: job for job in (jobs[0], held, *jobs[2:])}
    waits.slurm.fail("begin_now", JobRefused("it has ended"))
    assert waits.actor.release_all(1200.0, lambda job: job.id != "5") == []
    assert [job.begin_time for job in waits.slurm.jobs.values()] == [1290, 0, 0, 1290]
    assert waits.slurm.jobs["3"].priority == 1


# -- a pin that changes the job -----------------------------------------------------------------------------------------


def test_a_pin_that_changes_the_job_is_taken_back_and_another_is_put_on(waits: Desk) -> None:
    waits.slurm.changed_by = {"required": {"tasks": 1, "cpus": 1}}
    waits.start()
    waits.actor.advance(1100)
    waits.look(1101)
    assert (waits.job.state, waits.job.tasks, waits.job.cpus) == ("RUNNING", 4, 4)
    assert "pin taken back: it changed tasks 4 to 1, cpus 4 to 1" in waits.said()


@pytest.mark.parametrize("dies", ["", "pin", "unpin", "release", "job"])
def test_a_job_that_every_pin_changes_is_left_to_slurm(waits: Desk, dies: str) -> None:
    waits.slurm.changed_by = {"required": {"tasks": 1}, "only": {"memory_per_cpu": 7}}
    waits.start()
    if dies:
        waits.slurm.fail(dies, SlurmUnavailable("no answer"), "after")
        with pytest.raises(SlurmUnavailable):
            waits.actor.advance(1100)
        waits.begin_life()
    waits.actor.advance(1101)
    assert (waits.job.priority, waits.job.required_nodes, waits.job.tasks, waits.job.memory_per_cpu) == (1, (), 4, 100)
    assert (waits.row.held, waits.row.pinned, waits.journal.open_intents()) == (False, False, [])
    assert waits.actor.alarms == [
        "job 1: left to Slurm, because every pin to nodes changes its request: memory per cpu 100 to 7"
    ]


def test_a_job_that_slurm_calls_impossible_on_every_plan_is_left_to_slurm(waits: Desk) -> None:
    waits.slurm.starts = False
    for now in (1100.0, 2100.0, 3100.0):
        assert not waits.actor.alarms
        waits.see()
        waits.start(now)
        waits.actor.advance(now)
        waits.slurm.change(reason="BadConstraints", priority=0)
        waits.look(now + 31)
        if now < 3100.0:
            assert waits.job.held_by_admin
            waits.slurm.change(reason="JobHeldAdmin")
    assert waits.actor.alarms == ["job 1: left to Slurm, because Slurm refused 3 starts: BadConstraints"]
    assert (waits.job.priority, waits.job.required_nodes, waits.job.excluded_nodes) == (1, (), ())
    assert (waits.row.held, waits.row.pinned, waits.moves()) == (False, False, [])


def test_a_start_that_slurm_cannot_serve_for_another_reason_is_tried_again(waits: Desk) -> None:
    waits.slurm.starts = False
    for now in (1100.0, 2100.0, 3100.0, 4100.0):
        waits.start(now)
        waits.actor.advance(now)
        waits.slurm.change(reason="Resources")
        waits.look(now + 31)
    assert (waits.actor.alarms, waits.row.held) == ([], True)


def test_a_job_that_is_left_to_slurm_is_managed_again_when_its_owner_changes_the_request(waits: Desk) -> None:
    waits.slurm.changed_by = {"required": {"tasks": 1}, "only": {"tasks": 1}}
    waits.start()
    waits.actor.advance(1101)
    assert waits.actor.alarms
    waits.slurm.change(excluded_nodes=("gpu04",))
    waits.see()
    waits.actor.confirm(1102)
    assert not waits.actor.alarms


def test_a_job_with_fewer_gpus_than_nodes_is_left_to_slurm(waits: Desk) -> None:
    waits.slurm.change(gpus=1, min_nodes=2)
    waits.actor.release_left_to_slurm(waits.see(), 1101)
    assert waits.actor.alarms == ["job 1: left to Slurm, because it requests fewer GPUs (1) than nodes (2)"]
    assert (waits.job.priority, waits.row.held) == (1, False)


def test_a_preempted_job_that_is_left_to_slurm_is_released(waits: Desk) -> None:
    waits.row.unpinnable = "tasks 4 to 1"
    assert waits.job.held_by_admin
    waits.actor.release_left_to_slurm(waits.see(), 1101)
    assert (waits.job.priority, waits.row.held) == (1, False)
