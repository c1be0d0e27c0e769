"""A controller against the model of Slurm that is killed, or gets no answer, at any call or write; and the state at the end.

Everything but Slurm is real: controller, observer, `decide`, actor, ledger, journal. Hypothesis (test_interleavings.py) and a
seeded generator (histories.py) draw what happens.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from tests.chaos.logged_defects import LoggedDefects
from tests.chaos.model_job import ADMIN, CONTROLLER, ENDED, NODES, OWNER, Killed, ModelJob
from tests.chaos.slurm_model import SlurmModel, unavailable
from tiresias.durable.database import Unwritable
from tiresias.durable.leadership import Leadership
from tiresias.errors import Unavailable
from tiresias.scheduler.config import PolicyConfig
from tiresias.slurm_plugin.cluster.site import Site
from tiresias.slurm_plugin.config import Config, Paths, PreemptionConfig, Rpc
from tiresias.slurm_plugin.controller import Controller
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import RunRow

MEMORY = Path("/dev/shm")  # a journal that is synced to a disk allows ten times fewer steps a minute
ROUNDS = 600  # seconds in which everything must have ended
SITE = Site("model", "gpu", frozenset({"gpu"}), ())
WRITES = ("begin", "step", "finish", "save_job", "save_run", "record")


class MortalJournal(Journal):
    """Calls `point` before and after each write and each sync. full: writes or syncs that fail from now on."""

    full = 0

    point: Callable[[], None] = staticmethod(lambda: None)

    def sync(self) -> None:
        self.point()
        if self.full and self._db.in_transaction:
            self.full -= 1
            self._db.execute("rollback")
            raise Unwritable(self.path, "database or disk is full")
        super().sync()
        self.point()


def _mortal(name: str) -> None:
    original = getattr(Journal, name)

    def write(self: MortalJournal, *words: Any) -> None:
        self.point()
        if self.full:
            self.full -= 1
            raise Unwritable(self.path, "database or disk is full")
        original(self, *words)
        self.point()

    setattr(MortalJournal, name, write)


for each in WRITES:
    _mortal(each)


class MortalController(RuleBasedStateMachine):
    """A controller with its journal and the model of Slurm; it dies at any call, and starts again at the next operation."""

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.slurm = SlurmModel(self.folder / "control")
        self.slurm.before_call, self.slurm.after_call = self._before_call, self._at_call
        self.config = self.configuration()
        self.past: list[ModelJob] = []  # whose id was given to another one
        self.submitted = 0
        self.calls_left = self.points_left = -1
        self.forgotten: set[str] = set()  # held again, and no controller has polled since
        self.meanwhile: list[tuple[int, str, int]] = []  # reads of Slurm until it happens, the action, the job's number
        self.controller: Controller | None = None
        self.defects = LoggedDefects()
        self.defects.begin()
        self._live()

    def configuration(self) -> Config:
        return Config(
            mode="exact",
            period=1.0,
            poll=0.1,
            paths=Paths(state=self.folder, run=self.folder, control=self.folder / "control"),
            policy=PolicyConfig("las", thresholds=(30.0,), min_run=1.0, min_run_cost_factor=0.0),
            preemption=PreemptionConfig("USR2", deadline=20.0, start_timeout=5.0, backoff=3.0),
            rpc=Rpc(rate=0.0),
        )

    # -- lives ----------------------------------------------------------------------------------------------------------

    def _live(self) -> None:
        self.slurm.new_life()
        self.leadership = Leadership(self.folder / "leader", 1e6)
        assert self.leadership.take()
        self.journal = MortalJournal(self.folder, self.leadership.epoch)
        self.journal.point = self._at_point
        self.controller = Controller(
            self.config, self.slurm, self.journal, self.leadership, SITE, lambda: self.slurm.now
        )

    def _die(self) -> None:
        self.calls_left = self.points_left = -1
        self.journal.close()
        self.leadership.step_down()  # changes of the leader have tests of their own
        self.controller = None

    def _at_point(self) -> None:
        if self.points_left > 0:
            self.points_left -= 1
            if not self.points_left:
                raise Killed

    def _before_call(self, operation: str) -> None:
        """Between its reads of Slurm the controller cannot detect what others do; at the next read it must. A hold comes before a
        snapshot: one that an owner places between that and the controller's is lost, for Slurm cannot compare and set."""
        if operation in ("job", "snapshot"):
            waiting = [(reads - 1, action, pick) for reads, action, pick in self.meanwhile]
            self.meanwhile = [one for one in waiting if one[0] > 0 or (one[1] == "hold" and operation == "job")]
            for _, action, pick in [one for one in waiting if one not in self.meanwhile]:
                self._others(action, pick)
        self._at_call(operation)

    def _at_call(self, operation: str) -> None:
        self._at_point()
        if self.calls_left > 0:
            self.calls_left -= 1
            if not self.calls_left:
                unavailable(operation)

    def _do(self, operation: Callable[[Controller], object]) -> None:
        """As the daemon does it; the next controller begins its life at the next operation."""
        if self.controller is None:
            self._live()
        assert self.controller is not None
        before = set(self.forgotten)
        try:
            operation(self.controller)
            if operation is Controller.cycle:  # a release continues, whether or not it can record what it reads
                self.forgotten -= before
                for run in self.slurm.shown:
                    run.seen = True
        except Unavailable:  # Slurm, or the disk
            pass
        except Killed:
            self._die()
        self.slurm.shown = []
        self.defects.check()

    def _others(self, action: str, pick: int) -> None:
        job = self._pick(pick) if self.slurm.jobs else None
        if job and action == "cancel":
            self.slurm.cancel(job)
        elif job and action == "requeue":
            self.slurm.user_requeue(job)
        elif job and action == "hold" and job.state == "PENDING":
            self.slurm.set_hold(job, OWNER)
        elif job and action == "depend":
            self.slurm.depend(job, self._pick(pick + 1))
        elif action == "forget":
            self.forgotten |= set(self.slurm.forget(halfway=bool(pick % 2)))
        elif action == "node":
            self.slurm.node_down(NODES[pick % len(NODES)])

    def _pick(self, pick: int) -> ModelJob:
        alive = list(self.slurm.jobs.values())
        return alive[pick % len(alive)]

    # -- what must hold -------------------------------------------------------------------------------------------------

    @invariant()
    def no_hold_without_an_owner(self) -> None:
        own = [
            job.id
            for job in self.slurm.jobs.values()
            if job.holder == CONTROLLER and job.state in ("PENDING", "RUNNING")
        ]
        known = {job_id for job_id, held in self._alive().items() if held}
        assert set(own) - self.forgotten <= known, f"held, and not in the journal: {set(own) - known - self.forgotten}"

    @invariant()
    def no_job_is_set_aside(self) -> None:
        self.defects.check()

    @invariant()
    def no_request_is_forgotten(self) -> None:
        assert not self.slurm.forgotten_requests, self.slurm.forgotten_requests

    def _alive(self) -> dict[str, bool]:
        """By id, as it is on the disk: whether the controller holds the job."""
        with sqlite3.connect(f"file:{self.folder}/journal.sqlite?mode=ro", uri=True) as db:
            found = {row[0]: bool(row[1]) for row in db.execute("select id, held from job where ended = 0")}
        db.close()
        return found

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        try:
            self._run_to_the_end()
            self.defects.check()
        finally:
            self.defects.end()
            if self.controller:
                self._die()
            shutil.rmtree(self.folder)

    def _run_to_the_end(self) -> None:
        self.calls_left = self.points_left = -1
        self.journal.full = 0
        self.meanwhile.clear()
        self.slurm.down.clear()
        for job in self.slurm.jobs.values():
            if job.holder in (OWNER, ADMIN):
                job.holder = ""
        self._put_clock_right()
        for _ in range(ROUNDS):
            self._do(Controller.cycle)
            if all(job.over for job in self.slurm.jobs.values()) and not self.journal.open_intents():
                break
            self.slurm.pass_time(1.0)
            self._do(Controller.poll)
        self.no_request_is_forgotten()
        left = [job for job in self.slurm.jobs.values() if not job.over]
        assert not left, left
        assert self.journal.open_intents() == []
        self._do(Controller.release)
        assert not [job for job in self.slurm.jobs.values() if job.holder == CONTROLLER and job.state not in ENDED]
        for job in [*self.past, *self.slurm.jobs.values()]:
            self._check_journaled_runs(job)
        self._check_no_run_twice()

    def _put_clock_right(self) -> None:
        """Where it was set back after a job's wait had been lifted, its begin time is in the future again, for Slurm, too."""
        latest = max((job.begin_time for job in self.slurm.jobs.values() if not job.over), default=0.0)
        if latest > self.slurm.now + ROUNDS / 2:
            self.slurm.step_clock(latest - self.slurm.now)

    def _check_journaled_runs(self, job: ModelJob) -> None:
        """By id and start: a job that is first seen after a requeue is identified by that moment."""
        own = {(run.restart, run.start): run for run in self._journaled(job.id)}
        both = "\n".join(["", f"{job}", *map(str, own.values())])
        for run in [run for run in job.runs if run.seen]:
            assert (run.restart, run.start) in own, both
            end = own[run.restart, run.start].end
            assert run.stepped or end == run.end or (not run.exact and end > run.end), both

    def _journaled(self, job_id: str) -> list[RunRow]:
        with sqlite3.connect(f"file:{self.folder}/journal.sqlite?mode=ro", uri=True) as db:
            keys = [row[0] for row in db.execute("select key from job where id = ?", (job_id,))]
        db.close()
        return [run for key in keys for run in self.journal.runs(key)]

    def _check_no_run_twice(self) -> None:
        truth = {
            (job.id, run.restart, run.start) for job in [*self.past, *self.slurm.jobs.values()] for run in job.runs
        }
        numbers = {job_id for job_id, _, _ in truth}
        own = [(number, run.restart, run.start) for number in numbers for run in self._journaled(number)]
        assert len(own) == len(set(own)), sorted(own)
        assert set(own) <= truth, sorted(set(own) - truth)
