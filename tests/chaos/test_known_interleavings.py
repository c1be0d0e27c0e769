"""Interleavings that failed once, each in the order in which hypothesis or a campaign found it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from tests.chaos.model_job import CONTROLLER, NODES, OWNER, Killed, ModelJob
from tests.chaos.test_interleavings import Interleavings
from tests.chaos.test_opportunistic_interleavings import OWNER_ACCOUNT, OpportunisticInterleavings
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


def held_and_dependent(machine: Interleavings) -> ModelJob:
    """Return a job that the controller holds, and that depends on another one since."""
    machine._submit(8, 4.0, "good", False)
    machine.work(2)
    machine._submit(4, 4.0, "good", False)
    machine.work(1)
    first, job = machine.slurm.jobs.values()
    assert (first.state, job.holder) == ("RUNNING", CONTROLLER)
    machine.slurm.depend(job, first)
    return job


def test_a_held_job_whose_owner_adds_a_dependency_starts() -> None:
    """Slurm never finds out that a dependency of a held job is fulfilled: it waited for the controller, which waited for Slurm."""
    with history(Interleavings) as machine:
        job = held_and_dependent(machine)
        machine.work(2)
        assert job.holder == ""
        machine.slurm.pass_time(5.0)
        machine.work(4)
        assert [run.restart for run in job.runs] == [0]


def before_next(machine: Interleavings, operation: str, action: Callable[[], object]) -> None:
    """Let something happen once, right before the next such call of the back end."""
    usual = machine.slurm.before_call

    def before_call(name: str) -> None:
        if name == operation:
            machine.slurm.before_call = usual
            action()
        usual(name)

    machine.slurm.before_call = before_call


def just_fulfilled(machine: Interleavings) -> ModelJob:
    """Return a waiting job whose dependency is fulfilled, which a killed slurmctld forgets."""
    machine._submit(4, 1.0, "good", False)
    machine._submit(4, 4.0, "good", False)
    first, job = machine.slurm.jobs.values()
    machine.slurm.depend(job, first)
    machine.slurm.save_state()
    job.after = ""
    return job


@pytest.mark.parametrize("operation", ["hold", "job", "pin", "release"])
def test_a_moved_job_whose_start_meets_a_forgotten_dependency_starts(operation: str) -> None:
    """slurmctld was killed at a call of the start, and showed the dependency again. The job was held, and waited for ever."""
    with history(OpportunisticInterleavings) as machine:
        job = just_fulfilled(machine)
        machine.slurm.move(job, OWNER_ACCOUNT)
        before_next(machine, operation, lambda: machine.slurm.forget(halfway=False))
        machine.work(8)
        assert machine.slurm.boot
        assert job.runs


def test_a_job_that_a_start_finds_dependent_is_not_held_by_an_older_record() -> None:
    """The cycle that ended the start held the job once more."""
    with history(Interleavings) as machine:
        job = just_fulfilled(machine)
        before_next(machine, "job", lambda: machine.slurm.forget(halfway=False))
        machine._do(Controller.cycle)
        assert (bool(job.after), job.holder) == (True, "")


def test_an_owners_hold_that_a_start_finds_is_kept() -> None:
    """The cycle that ended the start placed the controller's hold in its place, by an older record."""
    with history(Interleavings) as machine:
        machine._submit(4, 4.0, "good", False)
        [job] = machine.slurm.jobs.values()
        before_next(machine, "job", lambda: machine.slurm.set_hold(job, OWNER))
        machine.work(3)
        assert job.holder == OWNER


def test_a_run_of_a_job_that_is_met_after_a_requeue_is_found() -> None:
    """The model looked for it by its submission; the journal has the requeue in its place."""
    with history(OpportunisticInterleavings) as machine:
        machine._do(Controller.release)
        machine._die()
        machine._submit(8, 15.0, "restart", False)
        machine.slurm.pass_time(1.0)
        machine.slurm.user_requeue(machine.slurm.jobs["1"])
        machine.slurm.pass_time(130.0)
        machine.work(4)
        assert machine.slurm.jobs["1"].state == "RUNNING"
        machine.submit_of_owner(4, 4.0)
        machine.work(4)
        [(key, _)] = machine._query("select key, outcome from intent where kind = 'restart'")
        assert key != machine.slurm.jobs["1"].key


def test_a_limit_that_a_slurmctld_of_another_time_hides_is_not_judged() -> None:
    """Neither the submission nor a record shows it to the controller where the clock was set back by an hour between both."""
    with history(Interleavings) as machine:
        machine._submit(1, 20.0, "good", True)
        machine._do(Controller.release)
        machine._die()
        job = machine.slurm.jobs["1"]
        job.max_nodes = 2
        machine.slurm.step_clock(-3600.0)
        machine.slurm.forget(halfway=False)
        job.begin_time = machine.slurm.now
        machine.work(2)
        assert job.runs
        machine.slurm.node_down(job.shares[0].node)
        machine.work(6)
