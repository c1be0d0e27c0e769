"""`tsbatch --opportunistic` on a real Slurm: which jobs run beyond their cells, and how they release them to the owner."""

from __future__ import annotations

import json
import time

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tests.slurm_plugin.controller.test_controller_virtual_clusters import SHARED, table, train

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

LOOP = "trap '' USR2; echo began; sleep 600"  # it cannot save
ACCEPTED = "as its owner accepts (tsbatch --opportunistic=restart)"


@pytest.fixture
def cluster(centre: Centre) -> Centre:
    """A virtual cluster that owns two of four nodes; jobs without the account belong to none."""
    centre.restart(virtual_clusters=[table("prod", 2)], **SHARED)
    return centre


def loop(cluster: Centre, *options: str, nodes: int = 1) -> str:
    return cluster.submit(*options, command=LOOP, gpus=4 * nodes, by="tsbatch")


def test_a_run_that_cannot_save_is_ended_for_the_owner_of_its_cells_and_starts_again(cluster: Centre) -> None:
    """Within Slurm's time to end it, not after the deadline of a save; its second run has the same log."""
    jobs = [loop(cluster, "--opportunistic=restart") for _ in range(4)]
    for job in jobs:
        cluster.wait_for_state(job, "RUNNING")
    cluster.wait_until(lambda: all(cluster.output(job) for job in jobs), "the scripts have not begun", *jobs)
    cluster.wait_until(
        lambda: all(cluster.published(job).get("ran", 0) > 2 for job in jobs), "runs of no whole second", *jobs
    )
    began = time.monotonic()
    owners = [train(cluster, "prod", user="bob") for _ in range(2)]
    for owner in owners:
        cluster.wait_for_state(owner, "RUNNING")
    waited = time.monotonic() - began
    assert waited < 20.0, f"{waited:.1f} s, as long as a save may take"
    ended = [job for job in jobs if cluster.reasons(job, "restart")]
    assert len(ended) == 2
    for job in ended:
        cluster.wait_until(lambda job=job: cluster.reasons(job, "restarted"), "its run has not ended", job)
        [why] = cluster.reasons(job, "restart")
        assert why.endswith(f"starts again, from the beginning unless it has saved, {ACCEPTED}")
        assert cluster.explain(job)["runs"][0]["lost"] > 0
        text = cluster.command("explain", job).stdout
        assert "which ended its run without a checkpoint" in " ".join(text.split())
    history = json.loads(cluster.command("history", "--json", ended[0]).stdout)
    assert history["jobs"][0]["redone"] > 0
    cluster.cancel(*owners, user="bob")
    for job in ended:
        cluster.wait_for_state(job, "RUNNING")
        cluster.wait_until(lambda job=job: cluster.output(job).count("began") == 2, "it has not begun again", job)
        assert "preemption requested" not in cluster.output(job), "it gets no checkpoint signal"


def test_a_run_that_saves_is_preempted_by_checkpoint_whatever_its_owner_accepts(cluster: Centre) -> None:
    jobs = [cluster.train("--opportunistic=restart", gpus=4) for _ in range(4)]
    for job in jobs:
        cluster.wait_until_preemptable(job)
    owner = train(cluster, "prod", user="bob", seconds=5.0)
    cluster.wait_for_state(owner, "RUNNING", "COMPLETED")
    cluster.wait_until(lambda: any(cluster.reasons(job, "parked") for job in jobs), "no run has saved", *jobs)
    assert not any(cluster.reasons(job, "restart") for job in jobs)


def test_jobs_run_beyond_the_cells_only_where_they_can_be_preempted(cluster: Centre) -> None:
    """They wait, with the reason; a job whose program saves starts."""
    confined = {
        loop(cluster): "it is not known to save, and its owner accepts no restart from the beginning",
        cluster.train(
            "--opportunistic=no", "--job-name=confined", gpus=4
        ): "its owner submitted it with --opportunistic=no",
    }
    saver = cluster.train(gpus=4)
    cluster.wait_for_state(saver, "RUNNING")
    cluster.wait_for_cycles()
    for job, reason in confined.items():
        assert cluster.state(job) == "PENDING"
        assert reason in cluster.why(job)


def test_a_job_that_is_confined_starts_in_the_cells_of_its_virtual_cluster(cluster: Centre) -> None:
    jobs = [loop(cluster, "--account=prod") for _ in range(3)]
    cluster.wait_until(
        lambda: sorted(map(cluster.state, jobs)) == ["PENDING", "RUNNING", "RUNNING"], "not two of three run", *jobs
    )
    cluster.wait_for_cycles()
    assert sorted(map(cluster.state, jobs)) == ["PENDING", "RUNNING", "RUNNING"]
