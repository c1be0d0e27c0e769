"""Holds and priorities of real jobs, the same through both back ends."""

from __future__ import annotations

import time

import pytest

from tests.slurm_plugin.backends.conftest import Site
from tiresias.slurm_plugin.backends.interface import TOP_PRIORITY

pytestmark = pytest.mark.sandbox


def test_hold_is_an_admins_and_release_lifts_it(site: Site) -> None:
    site.running("--exclusive", "--nodes=4")  # so that what waits, waits
    job_id = site.submit("--gpus=1")
    site.backend.hold(job_id)
    job = site.backend.job(job_id)
    assert (job.held_by_admin, job.held_by_user, job.reason, job.priority) == (True, False, "JobHeldAdmin", 0)
    refused = site.cluster.run(["scontrol", "release", job_id], user="alice", check=False)
    assert refused.returncode != 0
    site.backend.release(job_id)
    assert not site.backend.job(job_id).held_by_admin
    assert site.backend.job(job_id).priority > 0


def test_hold_takes_the_place_of_a_users(site: Site) -> None:
    job_id = site.submit("--hold")
    assert (site.backend.job(job_id).held_by_user, site.backend.job(job_id).held_by_admin) == (True, False)
    site.backend.hold(job_id)
    assert site.backend.job(job_id).held_by_admin


def test_a_running_job_runs_on_while_it_is_held(site: Site) -> None:
    job = site.running("--gpus=2")
    site.backend.hold(job.id)
    held = site.backend.job(job.id)
    assert (held.state, held.priority, held.start_time, held.shares) == ("RUNNING", 0, job.start_time, job.shares)
    site.backend.release(job.id)
    assert site.backend.job(job.id).priority > 0
    assert site.backend.job(job.id).state == "RUNNING"


def test_release_keeps_a_users_begin_time(site: Site) -> None:
    job_id = site.submit("--begin=now+1hour", "--gpus=1")
    site.backend.hold(job_id)
    site.backend.release(job_id)
    assert site.backend.job(job_id).begin_time > time.time() + 3000


def test_a_prioritized_job_keeps_others_from_its_nodes_until_it_starts(site: Site) -> None:
    """It waits for the GPUs that another one holds, and runs before a job that was submitted earlier, in another partition too."""
    before = site.running("--gpus=4", "--nodelist=gpu01")
    earlier = site.submit("--partition=other", "--gpus=1", "--nodelist=gpu01")
    job = site.submit("--hold", "--gpus=4")
    site.start(job, "gpu01")
    site.backend.prioritize(job)
    assert site.job(job).priority == TOP_PRIORITY
    site.backend.requeue(before.id)
    assert [share.node for share in site.wait(job, lambda job: job.state == "RUNNING").shares] == ["gpu01"]
    assert site.job(earlier).state == "PENDING"
    site.backend.lift(job)
    assert site.wait(job, lambda job: 0 < job.priority < TOP_PRIORITY).state == "RUNNING"


def test_a_hold_takes_the_highest_priority_back(site: Site) -> None:
    job = site.submit("--gpus=1", "--begin=now+1hour")
    site.backend.prioritize(job)
    site.backend.hold(job)
    site.backend.lift(job)
    assert 0 < site.job(job).priority < TOP_PRIORITY


def test_tasks_that_share_a_record_are_held_and_released_together_and_stay_one_record(site: Site) -> None:
    site.running("--exclusive", "--nodes=4")
    array = site.submit("--gpus=1", "--array=0-9")
    one = f"{array}_4"
    site.backend.hold(one)  # takes it out
    rest = f"{array}_[0-3,5-9]"
    for change, held in ((site.backend.hold, True), (site.backend.lift, False)):
        change(rest)
        tasks = {job_id: job for job_id, job in site.jobs().items() if job_id.startswith(f"{array}_")}
        assert len(tasks) == 10
        assert len({job.raw_id for job in tasks.values()}) == 2
        assert {job_id for job_id, job in tasks.items() if job.held_by_admin} == (set(tasks) if held else {one})


def test_cancelled_tasks_of_an_array_are_not_taken_for_its_first_task(site: Site) -> None:
    """Slurm keeps their record, as it keeps each ended job; it has no number of a task."""
    array = site.submit("--ntasks=1", "--gpus-per-task=1", "--array=0-3%1")
    first = f"{array}_0"
    until = time.monotonic() + 20.0
    while first not in site.jobs() or site.job(first).state != "RUNNING":
        assert time.monotonic() < until, site.jobs()
    for task in (1, 2, 3):
        site.cluster.run(["scancel", f"{array}_{task}"], user="alice")
    ids = [job.id for job in site.backend.snapshot().jobs]
    assert ids.count(first) == 1
    assert site.job(first).state == "RUNNING"
