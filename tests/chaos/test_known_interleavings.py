"""Interleavings that failed once, each in the order in which hypothesis or a campaign found it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from tests.chaos.model_job import NODES, Killed
from tests.chaos.test_interleavings import Interleavings
from tests.chaos.test_opportunistic_interleavings import OpportunisticInterleavings
from tiresias.slurm_plugin.controller import Controller

STRIDE = 3  # points between two kills
M = TypeVar("M", bound=Interleavings)


@contextmanager
def history(kind: Callable[[], M]) -> Iterator[M]:
    """Yield an open machine; what must hold at the end is checked at its end."""
    machine = kind()
    machine.open()
    try:
        yield machine
    finally:
        machine.teardown()


def kill_after(machine: Interleavings, operation: str) -> None:
    """Kill the controller once, right after the next such call of the back end."""
    usual = machine.slurm.after_call

    def after_call(name: str) -> None:
        if name == operation:
            machine.slurm.after_call = usual
            raise Killed
        usual(name)

    machine.slurm.after_call = after_call


def started_with_hidden_limit(points: int) -> bool:
    """Start and preempt a job whose record shows no limit of its nodes, with a kill at this point; return whether it happened."""
    with history(OpportunisticInterleavings) as machine:
        machine.slurm.forget(halfway=False)
        machine.kill_soon(points)
        machine.occupy()
        is_killed = machine.points_left < 0
        machine.submit_of_owner(4, 4.0)
        machine.work(4)
        machine.no_request_is_forgotten()
    return is_killed


@pytest.mark.slow
def test_a_start_by_excluded_nodes_survives_a_kill_at_every_point() -> None:
    """The model showed such a pin as required nodes, which are the owner's request where the controller excludes nodes."""
    killed = itertools.takewhile(started_with_hidden_limit, itertools.count(random.randint(1, STRIDE), STRIDE))
    assert sum(1 for _ in killed) * STRIDE > 20


def test_a_preemption_ends_before_the_next_start_of_its_job() -> None:
    """The controller was killed after the requeue, and the job could start when the next one led.

    That start replaced the preemption in memory, and its step stayed open in the journal.
    """
    with history(OpportunisticInterleavings) as machine:
        for _ in NODES:
            machine._submit(4, 60.0, "restart", False)
        machine.work(4)
        assert [job.state for job in machine.slurm.jobs.values()] == ["RUNNING", "RUNNING"]
        machine.submit_of_owner(4, 4.0)
        kill_after(machine, "requeue")
        while machine.controller:
            machine._do(Controller.cycle)
            machine.slurm.pass_time(0.5)
        [victim] = [job for job in machine.slurm.jobs.values() if job.restarts]
        [other] = [job for job in machine.slurm.jobs.values() if job.state == "RUNNING" and job.account == ""]
        machine.slurm.cancel(other)
        victim.runs[0].exact = False  # no controller reads its record during the clean-up
        machine.slurm.pass_time(10.0)
        machine.work(6)
        assert victim.state == "RUNNING"
        assert machine.journal.open_intents() == []


def test_a_limit_that_a_failed_node_hides_is_kept() -> None:
    """Slurm starts a job while no controller runs, and its node fails: 22.05 shows no most nodes of a requeued job."""
    with history(Interleavings) as machine:
        machine._do(Controller.release)
        machine._die()
        job = machine.slurm.submit("1", 4, 20.0, "good", 0)
        job.max_nodes = 1
        machine.slurm.pass_time(1.0)
        assert job.state == "RUNNING"
        machine.slurm.node_down(job.shares[0].node)
        machine.slurm.pass_time(5.0)
        machine.slurm.down.clear()
        machine.work(6)
        assert job.state == "RUNNING"
        machine.slurm.node_down(job.shares[0].node)
        machine.slurm.pass_time(5.0)
        machine.work(4)
        machine.no_request_is_forgotten()


def test_a_job_that_is_set_aside_fails_the_test() -> None:
    """The controller caught an assertion of the model about one job, set the job aside and went on: no test failed."""
    with pytest.raises(AssertionError, match="job 1: set aside: its hold failed with AssertionError: of the model"):
        set_a_job_aside()


def set_a_job_aside() -> None:
    with history(Interleavings) as machine:
        machine._submit(4, 4.0, "good", False)
        machine.slurm.hold = _fail  # type: ignore[method-assign]
        machine.work(1)


def _fail(job_id: str) -> None:
    raise AssertionError(f"of the model, about job {job_id}")


def test_excluded_nodes_are_given_back_without_a_hold() -> None:
    """The model required a hold for that. The job was set aside, and no test failed."""
    with history(Interleavings) as machine:
        machine._submit(8, 4.0, "good", False)
        machine.slurm.forget(halfway=False)
        machine._do(Controller.cycle)
        [job] = machine.slurm.jobs.values()
        machine.slurm.node_down(NODES[0])
        machine.slurm.pass_time(0.5)
        assert job.only == NODES
        assert (job.state, job.holder) == ("PENDING", "")
        machine._do(Controller.release)
        assert not job.only
