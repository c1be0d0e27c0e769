"""The owner's most nodes stay in force after a restart of slurmctld, whose records do not show them any more."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]


@pytest.fixture
def half_free(centre: Centre) -> Centre:
    """Two of four GPUs of each of four nodes are free."""
    for node in centre.cluster.spec.node_names:
        filler = centre.submit(f"--nodelist={node}", gpus=2)
        centre.wait_for_state(filler, "RUNNING")
    return centre


def nodes(centre: Centre, job: str) -> str:
    return centre.cluster.run(["squeue", "-h", "-j", job, "-o", "%T %D"]).stdout.strip()


def test_a_job_of_one_node_waits_for_one_node(half_free: Centre) -> None:
    known = half_free.submit("--nodes=1", gpus=4)
    half_free.wait_until(lambda: half_free.show(known)["Reason"] == "JobHeldAdmin", "it is not held", known)
    half_free.cluster.restart_slurmctld()
    half_free.wait_for_cycles(5)
    assert nodes(half_free, known) == "PENDING 1"
    assert half_free.query_journal(f"select min_nodes, max_nodes from job where id = '{known}'") == [(1, 1)]


def test_a_job_that_is_first_seen_after_the_restart_runs_on_as_many_nodes_as_requested(half_free: Centre) -> None:
    half_free.freeze()
    unseen = half_free.submit("--nodes=1", "--begin=now+3", gpus=4)
    half_free.cluster.restart_slurmctld()
    half_free.thaw()
    half_free.wait_for_cycles(8)
    assert nodes(half_free, unseen) == "PENDING 1"
    running = half_free.cluster.run(["squeue", "-h", "-w", "gpu03", "-o", "%i"]).stdout.strip()
    half_free.cancel(running)
    half_free.wait_for_state(unseen, "RUNNING")
    assert nodes(half_free, unseen) == "RUNNING 1"
