"""A pin changes nothing of a job's request but its nodes, and goes away without a trace; on three generations of Slurm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tiresias.slurm_plugin.backends.interface import JobRefused, RequestChange, SlurmJob
from tiresias.slurm_plugin.state import own_tasks, pins
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.state.own_tasks import KEPT

pytestmark = pytest.mark.sandbox
Site = Any  # conftest.py
# Request, and the nodes that it is pinned to
REQUESTS = {
    "plain": (("--gpus=2", "--ntasks=2"), ("gpu03",)),
    "spread": (("--gpus=5", "--ntasks=5", "--gpus-per-task=1"), ("gpu02", "gpu03")),
    "tasks of GPUs": (("--gpus=2", "--ntasks-per-gpu=1"), ("gpu03",)),
    "tasks of GPUs on one node": (("--gpus=4", "--ntasks-per-gpu=1", "-N1", "--mem-per-cpu=300"), ("gpu03",)),
    "tasks of a node": (("--gpus=4", "-N2", "--ntasks-per-node=2"), ("gpu02", "gpu04")),
    "excluded": (("--gpus=4", "-N2", "--ntasks-per-node=2", "--exclude=gpu01"), ("gpu02", "gpu04")),
    "required": (("--gpus=2", "--ntasks=2", "--nodelist=gpu03"), ("gpu03",)),
    "tasks of a node, of which one is required": (
        ("--gres=gpu:1", "-n4", "--ntasks-per-node=2", "--nodelist=gpu03"),
        ("gpu02", "gpu03"),
    ),
    "tasks and CPUs of GPUs": (("--gres=gpu:2", "--ntasks-per-gpu=1", "--cpus-per-gpu=2"), ("gpu03",)),
}
LARGE = 1_000_000
SRUN = "srun true && echo went well > /shared/{name}"


def own_row(job: SlurmJob) -> JobRow:
    row = JobRow("", job.id, 0, 0.0, min_nodes=job.min_nodes, max_nodes=job.max_nodes)
    row.required, row.excluded = ",".join(job.required_nodes), ",".join(job.excluded_nodes)
    row.held, row.asked = True, own_tasks.write(job)
    return row


def request(job: SlurmJob) -> SlurmJob:
    """Without what a hold changes; Slurm shows no limit of nodes as 0, as the number of tasks or as a large number."""
    return replace(job, begin_time=0, reason="", priority=0, max_nodes=job.max_nodes if job.max_nodes < LARGE else 0)


def pin(site: Site, row: JobRow, own: SlurmJob, nodes: tuple[str, ...]) -> None:
    """As a start does: the first way that changes nothing else."""
    found, kept = site.backend.job(own.id), own_tasks.read(row)
    for way in pins.ways(own, len(nodes), found.tasks):
        row.pin = way
        site.backend.pin(own.id, pins.pin(own, way, nodes))
        if not pins.changes(kept, site.backend.job(own.id)):
            return
        site.backend.unpin(own.id, pins.unpin(row))


@pytest.mark.parametrize("name", REQUESTS)
def test_a_pin_changes_the_nodes_alone(site: Site, name: str) -> None:
    options, nodes = REQUESTS[name]
    file = f"pin-{site.backend.name}-{site.cluster.spec.suite}-{name.replace(' ', '-')}"
    (site.cluster.shared / file).unlink(missing_ok=True)
    site.cluster.shared.chmod(0o1777)
    job_id = site.submit("--begin=now+1hour", *options, script=SRUN.format(name=file))
    own = site.backend.job(job_id)
    row = own_row(own)
    site.backend.hold(job_id)
    held = own_tasks.restored(row, site.backend.job(job_id))
    assert (held.tasks, held.cpus, held.gpus, held.min_nodes) == (own.tasks, own.cpus, own.gpus, own.min_nodes)
    pin(site, row, own, nodes)
    pinned = site.backend.job(job_id)
    assert {one: getattr(pinned, one) for one in KEPT} == {one: getattr(own, one) for one in KEPT}
    assert pins.is_on(row, pinned, nodes)
    site.backend.unpin(job_id, pins.unpin(row))
    back = request(own_tasks.restored(row, site.backend.job(job_id)))
    assert replace(back, max_nodes=own.max_nodes) == request(own)
    if not own_tasks.is_at_risk(own):
        assert back == request(own)
    pin(site, row, own, nodes)
    site.backend.lift(job_id)
    site.wait(job_id, lambda job: job.state in ("COMPLETED", "FAILED"))
    assert (site.cluster.shared / file).exists(), "srun failed inside the job"


def test_excluded_nodes_are_changed_without_a_hold_and_of_pending_jobs_only(site: Site) -> None:
    """Mode assist pins a job that may start at any moment: Slurm starts it there, or refuses the change.

    The job could run on that node once it is free: Slurm may hold a job that can run nowhere as soon as it schedules again.
    """
    running = site.running("--gpus=4", "--nodes=4", "--ntasks-per-node=1", "--gpus-per-node=1")
    pin = replace(pins.pin(running, pins.ONLY, ("gpu03",)), begins_now=False)
    with pytest.raises(JobRefused, match="no longer pending"):
        site.backend.pin(running.id, pin)
    assert replace(site.backend.job(running.id), end_time=running.end_time) == running
    waits = site.submit("--gpus=4", "--nodes=1", "--ntasks=4")
    before = site.wait(waits, lambda job: job.reason == "Resources")
    times = ("SubmitTime", "EligibleTime", "AccrueTime", "Priority")
    shown = [site.shown(waits, name) for name in times]
    site.backend.pin(waits, pin)
    after = site.backend.job(waits)
    assert after.excluded_nodes
    assert "gpu03" not in after.excluded_nodes
    assert [site.shown(waits, name) for name in times] == shown
    site.backend.unpin(waits, RequestChange(excluded=()))
    assert request(site.backend.job(waits)) == request(before)


def test_no_node_but_those_known_is_pinned_to(site: Site) -> None:
    job_id = site.submit("--hold", "--gpus=1")
    with pytest.raises(JobRefused, match="Invalid node name"):
        site.backend.pin(job_id, RequestChange(only=("gpu99",)))
    assert site.backend.job(job_id).excluded_nodes == ()
