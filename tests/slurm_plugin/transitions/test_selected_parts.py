"""A start that selects parts of its nodes: the type is part of the pin, and goes away with it."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.transitions.actor_harness import NO_ROWS, ActorHarness
from tiresias.scheduler.model import Plan, Start
from tiresias.slurm_plugin.backends.interface import JobRefused, SlurmUnavailable, StatedGpus
from tiresias.slurm_plugin.state import pins

OWN = (StatedGpus("job", 4), StatedGpus("task", 1))
TYPED = (StatedGpus("job", 4, "s1"), StatedGpus("task", 1, "s1"))
SECOND = ((0, 4),)  # all GPUs of the node are of its second part


@pytest.fixture
def job(held_job: ActorHarness) -> ActorHarness:
    held_job.slurm.change(stated_gpus=OWN)
    held_job.slurm.starts = False
    held_job.refresh()
    return held_job


def unpinned(job: ActorHarness) -> tuple[StatedGpus, ...]:
    """Let the start fail, and give the job its owner's request back."""
    job.poll(1131)
    assert job.intents() == []
    job.actor.unpin(job.refresh(), 1140.0)
    return job.job.stated_gpus


def test_each_option_gets_the_type_and_loses_it_again(job: ActorHarness) -> None:
    job.start(parts=SECOND)
    assert [intent.parts for intent in job.intents()] == [SECOND]
    job.actor.advance(1100)
    assert (job.job.stated_gpus, job.job.gpu_type) == (TYPED, "s1,s1")
    assert pins.own_gpu_type(job.row, job.job) == "", "the scheduler sees the owner's request"
    assert unpinned(job) == OWN
    assert not job.row.pinned


HALF = Start("1", (("gpu02", 2),), parts=((0, 2),))
KILLS = [("pin", "before"), ("pin", "after"), ("lift", "before")]


@pytest.fixture
def elastic_job(job: ActorHarness) -> ActorHarness:
    """Job 1 requests four tasks with a GPU each, and can use one to eight."""
    job.slurm.change(gpus=4, tasks=4, cpus=8, elastic="1-8")
    job.refresh()
    job.actor.begin(Plan(NO_ROWS, NO_ROWS, NO_ROWS, actions=(HALF,)), 1100.0)
    return job


def test_an_elastic_job_gets_the_type_at_another_size(elastic_job: ActorHarness) -> None:
    elastic_job.actor.advance(1100)
    assert elastic_job.job.stated_gpus == (StatedGpus("job", 2, "s1"), StatedGpus("task", 1, "s1"))
    assert (elastic_job.job.gpus, elastic_job.row.pin) == (2, pins.SIZE + pins.TYPED)
    assert unpinned(elastic_job) == OWN
    assert elastic_job.job.gpus == 4


@pytest.mark.parametrize(("operation", "when"), KILLS)
def test_a_controller_that_ends_in_such_a_start(elastic_job: ActorHarness, operation: str, when: str) -> None:
    elastic_job.slurm.fail(operation, SlurmUnavailable("no answer"), when)
    with pytest.raises(SlurmUnavailable):
        elastic_job.actor.advance(1100)
    elastic_job.restart_controller()
    elastic_job.poll(1101)
    assert (elastic_job.job.gpus, elastic_job.job.gpu_type) == (2, "s1,s1")
    assert unpinned(elastic_job) == OWN
    assert elastic_job.job.gpus == 4


@pytest.mark.parametrize(("operation", "when"), KILLS)
def test_a_controller_that_ends_between_pin_and_release(job: ActorHarness, operation: str, when: str) -> None:
    """The next one continues with the same parts, and has the owner's request."""
    job.start(parts=SECOND)
    job.slurm.fail(operation, SlurmUnavailable("no answer"), when)
    with pytest.raises(SlurmUnavailable):
        job.actor.advance(1100)
    job.restart_controller()
    job.poll(1101)
    assert job.job.stated_gpus == TYPED
    assert job.job.priority > 0
    assert unpinned(job) == OWN


def test_a_refused_type_leaves_the_owners_request(job: ActorHarness) -> None:
    job.start(parts=SECOND)
    job.slurm.fail("pin", JobRefused("job 1: Invalid GRES specification"))
    job.actor.advance(1100)
    assert job.intents() == []
    job.actor.unpin(job.refresh(), 1140.0)
    assert job.job.stated_gpus == OWN


def test_without_parts_the_request_is_not_read(job: ActorHarness) -> None:
    job.start()
    job.actor.advance(1100)
    assert "stated_gpus" not in job.slurm.calls
    assert job.job.stated_gpus == OWN
    assert not pins.is_typed(job.row)


def test_parts_that_no_request_states_are_left_to_slurm(job: ActorHarness) -> None:
    """Tasks of one GPU cannot name two types."""
    job.start(parts=((2, 2),))
    job.actor.advance(1100)
    assert job.job.stated_gpus == OWN
    assert job.job.priority > 0
