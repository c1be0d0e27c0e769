"""The controller against a model of Slurm: crashes between any two calls, owners at work at any moment, a Slurm that fails.

Slurm is slurm_model.py, a model: it shows only the facts that it contains. It makes thousands of interleavings a minute; run.py
and kills.py make those of a real Slurm.

After each step: the journal has each hold of the controller. At the end, when all trouble is over: every job has finished, no
step is left open, the journal has the runs that were, and a controller that stops leaves no hold.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.chaos.model_job import ADMIN, CONTROLLER, GPUS, NO_LIMIT, NODES, OWNER, ModelJob
from tests.chaos.mortal_controller import MortalController
from tiresias.slurm_plugin.controller import Controller

picks = st.integers(0, 5)


class Interleavings(MortalController):
    """What happens to the controller, to Slurm and to jobs, one rule each."""

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

    @rule(
        reads=st.integers(1, 6),
        action=st.sampled_from(["cancel", "requeue", "hold", "depend", "forget", "node"]),
        pick=picks,
    )
    def happens_meanwhile(self, reads: int, action: str, pick: int) -> None:
        self.meanwhile.append((reads, action, pick))

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
        self._submit(gpus, work, habit, hook)

    def _submit(self, gpus: int, work: float, habit: str, hook: bool, account: str = "") -> None:
        self.submitted += 1
        wait = self.config.admission_wait if hook else 0
        self.slurm.submit(str(self.submitted), gpus, work, habit, wait, account)

    @precondition(lambda self: self.slurm.jobs)
    @rule(pick=picks)
    def wrap_ids(self, pick: int) -> None:
        """An id is used again, after the controller has seen that its job ended: Slurm keeps the record for a while."""
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
        elif holder == ADMIN and self._resembles_own_hold(job):
            pass  # an administrator's hold cannot be distinguished from the controller's then
        elif job.holder == "" or (job.holder == CONTROLLER and holder == OWNER and job.state == "PENDING"):
            self.slurm.set_hold(job, holder)

    @precondition(lambda self: len(self.slurm.jobs) > 1)
    @rule(pick=picks, other=picks)
    def depend(self, pick: int, other: int) -> None:
        """Of a job that waits on one that was submitted earlier."""
        alive = [job for job in self.slurm.jobs.values() if not job.over]
        pairs = [(job, one) for job in alive for one in alive if job.state == "PENDING" and int(one.id) < int(job.id)]
        if pairs:
            self.slurm.depend(*pairs[(pick * 6 + other) % len(pairs)])

    @precondition(lambda self: self.slurm.jobs)
    @rule(pick=picks, nodes=st.integers(0, 2))
    def modify(self, pick: int, nodes: int) -> None:
        job = self._pick(pick)
        if job.state == "PENDING" and not job.is_pinned:  # under a pin its owner reads the controller's request
            job.max_nodes = nodes if nodes * GPUS >= job.gpus else NO_LIMIT
            job.hides_limit = False

    @rule(node=st.sampled_from(NODES), up=st.booleans())
    def node_changes(self, node: str, up: bool) -> None:
        if up:
            self.slurm.down.discard(node)
        else:
            self.slurm.node_down(node)

    def _resembles_own_hold(self, job: ModelJob) -> bool:
        """After a start that slurmctld may have forgotten, or a release that found the state's disk full."""
        return bool(job.is_pinned and self.slurm.boot) or (
            job.holder != CONTROLLER and self._alive().get(job.id, False)
        )


class MoreInterleavings(Interleavings):
    """The same with more examples, for `make test-long`."""


FEW = settings(
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shrink forty steps takes minutes and helps little
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
Interleavings.TestCase.settings, MoreInterleavings.TestCase.settings = FEW, settings(FEW, max_examples=100)
TestInterleavings = pytest.mark.slow(Interleavings.TestCase)
TestMoreInterleavings = pytest.mark.slow(pytest.mark.long(MoreInterleavings.TestCase))
