"""Starts of real jobs on given nodes, the same through both back ends."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.backends.conftest import Site
from tests.slurm_plugin.backends.waiting import settled
from tiresias.slurm_plugin.backends.interface import JobRefused, RequestChange

pytestmark = pytest.mark.sandbox


def test_start_takes_exactly_these_nodes(site: Site) -> None:
    job_id = site.submit("--hold", "--gpus=4", "--ntasks=4", "--gpus-per-task=1", "--mem-per-cpu=100")
    site.running("--gres=gpu:3", "--nodelist=gpu02", "--mem-per-cpu=100")
    site.backend.hold(job_id)
    site.start(job_id, "gpu02", "gpu03")
    job = site.wait(job_id, lambda job: job.state == "RUNNING" and bool(job.shares))
    assert [(share.node, share.gpus) for share in job.shares] == [("gpu02", 1), ("gpu03", 3)]


def test_unpin_gives_the_request_back(site: Site) -> None:
    job_id = site.submit("--hold", "--gpus=2", "--ntasks=2", "--nodes=1-2", "--nodelist=gpu01")
    site.backend.hold(job_id)
    before = site.backend.job(job_id)
    site.cluster.run(["scontrol", "update", f"jobid={job_id}", "numnodes=2-2", "reqnodelist=gpu03,gpu04"])
    pinned = site.backend.job(job_id)
    assert (pinned.min_nodes, pinned.max_nodes, pinned.required_nodes) == (2, 2, ("gpu03", "gpu04"))
    site.backend.unpin(
        job_id, RequestChange(nodes=(before.min_nodes, before.max_nodes), required=before.required_nodes)
    )
    assert site.backend.job(job_id) == before
    site.backend.unpin(job_id, RequestChange(nodes=(1, 0), required=()))
    free = site.backend.job(job_id)
    assert (free.min_nodes, free.required_nodes) == (1, ())
    assert free.max_nodes > 4


def test_start_does_not_shrink_a_running_job(site: Site) -> None:
    job = site.running("--gpus=2", "--nodes=2", "--ntasks=2")
    with pytest.raises(JobRefused):
        site.start(job.id, job.shares[0].node)
    assert site.backend.job(job.id).shares == job.shares


def test_start_on_a_node_that_is_not_there_leaves_the_job_held(site: Site) -> None:
    job_id = site.submit("--hold")
    site.backend.hold(job_id)
    with pytest.raises(JobRefused, match=f"job {job_id}: Invalid node name"):
        site.start(job_id, "gpu99")
    job = site.backend.job(job_id)
    assert (job.held_by_admin, job.min_nodes, job.required_nodes) == (True, 1, ())


def test_one_task_of_an_array(site: Site) -> None:
    array = site.submit("--hold", "--array=1-4", "--gpus=1")
    second, third = f"{array}_2", f"{array}_3"
    for task in range(1, 5):
        site.backend.hold(f"{array}_{task}")
    site.start(third, "gpu04")
    running = site.wait(third, lambda job: job.state == "RUNNING" and bool(job.shares))
    assert [share.node for share in running.shares] == ["gpu04"]
    site.backend.hold(third)
    end = site.backend.requeue(third)
    again = site.wait(third, lambda job: job.state == "PENDING" and not job.completing)
    assert (again.restarts, again.end_time, again.array_id) == (1, end, int(array))
    site.backend.release(second)
    site.wait(second, lambda job: job.state == "RUNNING")
    found = {one.id: (one.state, one.held_by_admin) for one in site.jobs().values() if one.array_id == int(array)}
    assert found == {
        f"{array}_1": ("PENDING", True),
        second: ("RUNNING", False),
        third: ("PENDING", True),
        f"{array}_4": ("PENDING", True),
    }


def test_a_requeued_job_starts_again_on_the_pinned_node(site: Site) -> None:
    job = site.running("--gpus=1", "--nodelist=gpu01")
    site.backend.hold(job.id)
    site.backend.requeue(job.id)
    site.wait(job.id, settled)
    site.start(job.id, "gpu03")
    again = site.wait(job.id, lambda job: job.state == "RUNNING" and bool(job.shares), seconds=10)
    assert [share.node for share in again.shares] == ["gpu03"]
