"""The controller against a model of Slurm: crashes between any two calls, owners at work at any moment, a Slurm that fails.

Everything but Slurm is real: controller, observer, `decide`, actor, ledger, journal. Slurm is slurm_model.py, a model: what it
does not know it cannot show. It makes thousands of interleavings a minute; the real Slurm's are in run.py and kills.py.

After each step: no hold of ours that the journal does not know. At the end, when all trouble is over: every job has finished,
no step is left open, the journal's runs are those that were, and a controller that stops leaves no hold behind.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import slurm_model
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from slurm_model import ADMIN, NODES, OWNER, US, Killed, ModelJob, SlurmModel

from tiresias.errors import Unavailable
from tiresias.scheduler.config import PolicyConfig
from tiresias.slurm_plugin.cluster.site import Site
from tiresias.slurm_plugin.config import Config, Paths, Preemption, Rpc
from tiresias.slurm_plugin.controller import Controller
from tiresias.slurm_plugin.lead.leadership import Leadership
from tiresias.slurm_plugin.state.database import Unwritable
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import RunRow

MEMORY = Path("/dev/shm")  # a journal that is synced to a disk makes ten times fewer of them
ROUNDS = 600  # seconds in which everything must have come to its end
SITE = Site("model", "gpu", frozenset({"gpu"}), ())
WRITES = ("begin", "step", "finish", "save_job", "save_run", "record")
picks = st.integers(0, 5)


class MortalJournal(Journal):
    """Calls `point` before and after each write. full: writes that fail from now on."""

    full = 0

    point: Callable[[], None] = staticmethod(lambda: None)


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


class Centre(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.slurm = SlurmModel(self.folder / "control")
        self.slurm.before_call, self.slurm.after_call = self._before_call, self._at_call
        self.config = Config(
            mode="exact", period=1.0, poll=0.1, paths=Paths(state=self.folder, run=self.folder, control=self.folder / "control"),
            policy=PolicyConfig("las", thresholds=(30.0,), min_run=1.0, min_run_cost_factor=0.0),
            preemption=Preemption("USR2", 20.0, 5.0, 3.0),
            rpc=Rpc(rate=0.0),
        )  # fmt: skip
        self.past: list[ModelJob] = []  # whose id was given to another one
        self.submitted = 0
        self.calls_left = self.points_left = -1
        self.forgotten: set[str] = set()  # held again, and no controller has looked since
        self.meanwhile: list[tuple[int, str, int]] = []  # looks at Slurm until it happens, what, to whom
        self.controller: Controller | None = None
        self._live()

    # -- lives ----------------------------------------------------------------------------------------------------------

    def _live(self) -> None:
        self.slurm.new_life()
        self.leadership = Leadership(self.folder / "leader", 1e6)
        assert self.leadership.take()
        self.journal = MortalJournal(self.folder, self.leadership.epoch)
        self.journal.point = self._at_point  # type: ignore[method-assign]
        self.controller = Controller(
            self.config, self.slurm, self.journal, self.leadership, SITE, lambda: self.slurm.now
        )

    def _die(self) -> None:
        self.calls_left = self.points_left = -1
        self.journal.close()
        self.leadership.step_down()  # who leads when is tested with it
        self.controller = None

    def _at_point(self) -> None:
        if self.points_left > 0:
            self.points_left -= 1
            if not self.points_left:
                raise Killed

    def _before_call(self, verb: str) -> None:
        """Between its looks at Slurm the controller cannot know what others do; before them it must find it. A hold comes before a
        snapshot: the one that an owner places between that and our own is lost, for Slurm cannot compare and set."""
        if verb in ("job", "snapshot"):
            waiting = [(looks - 1, deed, pick) for looks, deed, pick in self.meanwhile]
            self.meanwhile = [one for one in waiting if one[0] > 0 or (one[1] == "hold" and verb == "job")]
            for _, deed, pick in [one for one in waiting if one not in self.meanwhile]:
                self._others(deed, pick)
        self._at_call(verb)

    def _at_call(self, verb: str) -> None:
        self._at_point()
        if self.calls_left > 0:
            self.calls_left -= 1
            if not self.calls_left:
                slurm_model.unavailable(verb)

    def _do(self, deed: Callable[[Controller], object]) -> None:
        """As the daemon does it; the next one begins its life at the next deed."""
        if self.controller is None:
            self._live()
        assert self.controller is not None
        try:
            deed(self.controller)
            if deed is Controller.cycle:  # a release goes on, whether or not it can write down what it sees
                self.forgotten.clear()
                for run in self.slurm.shown:
                    run.seen = True
        except Unavailable:  # Slurm, or the disk
            pass
        except Killed:
            self._die()
        self.slurm.shown = []

    # -- what happens ---------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, 5.0, 25.0]))
    def time_passes(self, seconds: float) -> None:
        self.slurm.pass_time(seconds)

    @rule(seconds=st.sampled_from([-3600.0, -30.0, 30.0, 3600.0]))
    def clock_steps(self, seconds: float) -> None:
        self.slurm.step_clock(seconds)

    @rule(writes=st.integers(1, 12))
    def disk_is_full(self, writes: int) -> None:
        if self.controller:
            self.journal.full = writes

    @rule()
    def slurm_saves(self) -> None:
        self.slurm.save_state()

    @rule(halfway=st.booleans())
    def slurm_forgets(self, halfway: bool) -> None:
        self.forgotten |= set(self.slurm.forget(halfway))

    @rule(cycles=st.integers(1, 4))
    def work(self, cycles: int) -> None:
        for _ in range(cycles):
            self._do(Controller.cycle)
            self.slurm.pass_time(0.5)
            self._do(Controller.poll)

    @rule(looks=st.integers(1, 6), deed=st.sampled_from(["cancel", "requeue", "hold", "node"]), pick=picks)
    def happens_meanwhile(self, looks: int, deed: str, pick: int) -> None:
        self.meanwhile.append((looks, deed, pick))

    def _others(self, deed: str, pick: int) -> None:
        job = self._pick(pick) if self.slurm.jobs else None
        if job and deed == "cancel":
            self.slurm.cancel(job)
        elif job and deed == "requeue":
            self.slurm.user_requeue(job)
        elif job and deed == "hold" and job.state == "PENDING":
            self.slurm.set_hold(job, OWNER)
        elif deed == "node":
            self.slurm.node_down(NODES[pick % len(NODES)])

    @rule(points=st.integers(1, 6) | st.integers(1, 60))
    def kill_soon(self, points: int) -> None:
        self.points_left = points

    @rule(calls=st.integers(1, 12))
    def slurm_fails_soon(self, calls: int) -> None:
        self.calls_left = calls

    @precondition(lambda self: self.controller is not None)
    @rule()
    def stop(self) -> None:
        self._do(Controller.release)
        if self.controller:
            self._die()

    @precondition(lambda self: self.submitted < 9)
    @rule(
        gpus=st.sampled_from([1, 2, 4, 8]),
        work=st.sampled_from([1.0, 4.0, 20.0]),
        habit=st.sampled_from(["good", "good", "slow", "ignores", "dumb"]),
        hook=st.booleans(),
    )
    def submit(self, gpus: int, work: float, habit: str, hook: bool) -> None:
        self.submitted += 1
        wait = self.config.admission_wait if hook else 0
        self.slurm.submit(str(self.submitted), gpus, work, habit, wait)

    @precondition(lambda self: self.slurm.jobs)
    @rule(pick=picks)
    def wrap_ids(self, pick: int) -> None:
        """An id comes again, after the controller has seen that its bearer ended: Slurm remembers that for a while."""
        job = self._pick(pick)
        if job.over and self.slurm.now - job.submitted > 2 and job.id not in self._alive():
            self.slurm.purge(job)
            self.past.append(job)
            self.slurm.submit(job.id, 2, 3.0, "good", 0)

    @precondition(lambda self: self.slurm.jobs)
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        self.slurm.cancel(self._pick(pick))

    @precondition(lambda self: self.slurm.jobs)
    @rule(pick=picks)
    def requeue(self, pick: int) -> None:
        self.slurm.user_requeue(self._pick(pick))

    @precondition(lambda self: self.slurm.jobs)
    @rule(pick=picks, holder=st.sampled_from([OWNER, ADMIN]), lift=st.booleans())
    def hold_or_release(self, pick: int, holder: str, lift: bool) -> None:
        job = self._pick(pick)
        if lift:
            self.slurm.lift_hold(job, holder)
        elif holder == ADMIN and self._looks_like_ours(job):
            pass  # nobody can tell an admin's hold from ours then
        elif job.holder == "" or (job.holder == US and holder == OWNER and job.state == "PENDING"):
            self.slurm.set_hold(job, holder)

    @precondition(lambda self: self.slurm.jobs)
    @rule(pick=picks, nodes=st.integers(0, 2))
    def modify(self, pick: int, nodes: int) -> None:
        job = self._pick(pick)
        if job.state == "PENDING" and not job.pin:  # under a pin its owner reads ours
            job.max_nodes = nodes if nodes * slurm_model.GPUS >= job.gpus else 0

    @rule(node=st.sampled_from(NODES), up=st.booleans())
    def node_changes(self, node: str, up: bool) -> None:
        if up:
            self.slurm.down.discard(node)
        else:
            self.slurm.node_down(node)

    def _looks_like_ours(self, job: ModelJob) -> bool:
        """After a start that slurmctld may have forgotten, or a release that found the state's disk full."""
        return bool(job.pin and self.slurm.boot) or (job.holder != US and self._alive().get(job.id, False))

    def _pick(self, pick: int) -> ModelJob:
        alive = list(self.slurm.jobs.values())
        return alive[pick % len(alive)]

    # -- what must hold -------------------------------------------------------------------------------------------------

    @invariant()
    def no_hold_without_an_owner(self) -> None:
        own = [job.id for job in self.slurm.jobs.values() if job.holder == US and job.state in ("PENDING", "RUNNING")]
        known = {job_id for job_id, held in self._alive().items() if held}
        assert set(own) - self.forgotten <= known, f"held by nobody who remembers: {set(own) - known - self.forgotten}"

    def _alive(self) -> dict[str, bool]:
        """By id, as it is on the disk: whether the job is held by us."""
        with sqlite3.connect(f"file:{self.folder}/journal.sqlite?mode=ro", uri=True) as db:
            found = {row[0]: bool(row[1]) for row in db.execute("select id, held from job where ended = 0")}
        db.close()
        return found

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        try:
            self._comes_to_its_end()
        finally:
            if self.controller:
                self._die()
            shutil.rmtree(self.folder)

    def _comes_to_its_end(self) -> None:
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
        left = [job for job in self.slurm.jobs.values() if not job.over]
        assert not left, left
        assert self.journal.open_intents() == []
        self._do(Controller.release)
        assert not [job for job in self.slurm.jobs.values() if job.holder == US and job.state not in slurm_model.ENDED]
        for job in [*self.past, *self.slurm.jobs.values()]:
            self._books_agree(job)
        self._nothing_twice()

    def _put_clock_right(self) -> None:
        """Where it was set back after a job's wait had been lifted, its begin time is to come again, for Slurm itself, too."""
        latest = max((job.begin_time for job in self.slurm.jobs.values() if not job.over), default=0.0)
        if latest > self.slurm.now + ROUNDS / 2:
            self.slurm.step_clock(latest - self.slurm.now)

    def _books_agree(self, job: ModelJob) -> None:
        """By id and start: a job that is met after a requeue is known by that moment."""
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

    def _nothing_twice(self) -> None:
        truth = {
            (job.id, run.restart, run.start) for job in [*self.past, *self.slurm.jobs.values()] for run in job.runs
        }
        numbers = {job_id for job_id, _, _ in truth}
        own = [(number, run.restart, run.start) for number in numbers for run in self._journaled(number)]
        assert len(own) == len(set(own)), sorted(own)
        assert set(own) <= truth, sorted(set(own) - truth)


class LongCentre(Centre):
    """The same with more examples, for `make test-long`."""


FEW = settings(
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shrink forty steps takes minutes and helps little
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
Centre.TestCase.settings, LongCentre.TestCase.settings = FEW, settings(FEW, max_examples=100)
TestInterleavings = pytest.mark.slow(Centre.TestCase)
TestMoreInterleavings = pytest.mark.slow(pytest.mark.long(LongCentre.TestCase))
