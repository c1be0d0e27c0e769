"""Requeues of real jobs, the same through both back ends."""

from __future__ import annotations

import time

import pytest

from tests.slurm_plugin.backends.conftest import Site
from tests.slurm_plugin.backends.waiting import eventually, next_second, settled
from tiresias.slurm_plugin.backends.interface import JobRefused, NotRequeueable, SlurmJob

pytestmark = pytest.mark.sandbox


def assert_ran(site: Site, job: SlurmJob, end: int, answered: int) -> None:
    """Check the one run of a requeued job; a busy slurmctld may end it in a later second, until that in which it answers."""
    ((start, ended),) = site.ran(job.id)
    assert start == job.start_time
    assert end <= ended <= answered


def test_requeue(site: Site) -> None:
    job = site.running("--gpus=2")
    site.backend.hold(job.id)
    next_second()
    end, answered = site.backend.requeue(job.id), int(time.time())
    again = site.wait(job.id, settled)
    assert (again.restarts, again.held_by_admin, again.reason, again.shares) == (1, True, "JobHeldAdmin", ())
    assert (again.gpus, again.min_nodes, again.start_time, again.end_time) == (2, 1, 0, end)
    assert_ran(site, job, end, answered)
    assert again.begin_time > time.time() + 100
    site.backend.release(job.id)
    third = site.wait(job.id, lambda job: job.state == "RUNNING", seconds=10)
    assert (third.restarts, third.start_time >= end) == (1, True)


def test_several_jobs_are_requeued_together(site: Site) -> None:
    jobs = [site.running("--gpus=1").id for _ in range(3)]
    site.backend.requeue_together(jobs)
    assert [site.backend.job(job).restarts for job in jobs] == [1, 1, 1]
    unwilling, another = site.running("--gpus=1", "--no-requeue").id, site.running("--gpus=1").id
    with pytest.raises(JobRefused):
        site.backend.requeue_together([unwilling, another])
    assert site.backend.job(another).restarts == 1


@pytest.mark.slow
def test_what_completing_shows(site: Site) -> None:
    """A run that does not heed SIGTERM keeps its nodes for KillWait seconds after Slurm's own accounts have closed it."""
    job = site.running("--gpus=3", script="trap '' TERM; while true; do sleep 0.1; done")
    assert site.job(job.id).shares == job.shares
    site.backend.hold(job.id)
    next_second()
    end, answered = site.backend.requeue(job.id), int(time.time())
    for leaving in (site.backend.job(job.id), site.job(job.id)):
        assert (leaving.state, leaving.completing, leaving.restarts) == ("PENDING", True, 1)
        assert (leaving.start_time, leaving.end_time, leaving.shares) == (0, end, job.shares)
    waiting = site.wait(job.id, lambda job: not job.completing)
    assert waiting.submit_time - end >= 4
    assert (waiting.end_time, waiting.shares) == (end, ())
    assert_ran(site, job, end, answered)


@pytest.mark.slow
def test_a_cancelled_job_that_completes_is_not_pending(site: Site) -> None:
    job = site.running("--gpus=1", script="trap '' TERM; while true; do sleep 0.1; done")
    site.cluster.run(["scancel", job.id])
    leaving = site.wait(job.id, lambda job: job.completing)
    assert leaving.state not in ("PENDING", "RUNNING")
    assert leaving.end_time >= job.start_time
    assert [(share.node, share.gpus) for share in leaving.shares] == [(share.node, share.gpus) for share in job.shares]


def test_a_requeue_by_others_is_seen(site: Site) -> None:
    job = site.running("--gpus=1")
    site.cluster.run(["scontrol", "requeue", job.id], user="alice")
    again = site.wait(job.id, lambda job: job.state == "PENDING" and not job.completing)
    assert (again.restarts, again.held_by_admin) == (1, False)


def test_a_job_that_has_ended_is_not_run_again(site: Site) -> None:
    job_id = site.submit(script="true")
    ended = site.wait(job_id, lambda job: job.state == "COMPLETED" and not job.completing)
    site.backend.requeue(job_id)
    assert site.backend.job(job_id) == ended
    assert site.job(job_id) == ended


def test_what_may_never_be_requeued(site: Site) -> None:
    job = site.running("--no-requeue")
    with pytest.raises(NotRequeueable, match=f"job {job.id}: Requested operation is presently disabled"):
        site.backend.requeue(job.id)
    assert site.backend.job(job.id).state == "RUNNING"
    srun = site.cluster.popen(["srun", "--job-name=byhand", "sleep", "300"], user="alice")
    try:
        allocation = eventually(
            lambda: [one.id for one in site.jobs().values() if one.name == "byhand" and one.shares]
        )[0]
        with pytest.raises(NotRequeueable, match=f"job {allocation}: Only batch jobs"):
            site.backend.requeue(allocation)
        assert site.backend.job(allocation).state == "RUNNING"
    finally:
        site.cluster.run(["scancel", "--name=byhand"])
        srun.wait(30)
