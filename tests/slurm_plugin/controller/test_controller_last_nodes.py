"""A preempted job resumes on the node of its last run, where others would do as well. Real Slurm, real jobs."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.long]


def nodes_of_runs(centre: Centre, job: str) -> list[list[str]]:
    """Return the names of the nodes of each run."""
    return [[node.partition(":")[0] for node in run["nodes"]] for run in centre.explain(job).get("runs", ())]


def test_a_preempted_job_returns_to_its_node(centre: Centre) -> None:
    others = [centre.submit(gpus=4) for _ in range(3)]
    for job in others:
        centre.wait_for_state(job, "RUNNING")
    large = centre.train(gpus=4)
    centre.wait_until_preemptable(large)
    [[own]] = nodes_of_runs(centre, large)
    assert own != "gpu01", "other nodes come first where all are free"
    centre.scontrol("hold", large, user="alice")  # so that it waits until all nodes are free
    small = centre.submit(user="bob")
    centre.wait_for_state(small, "RUNNING")
    centre.cancel(*others)
    centre.cancel(small, user="bob")
    centre.wait_until(lambda: [job["id"] for job in centre.status()["jobs"]] in ([], [large]), "other jobs do not end")
    centre.wait_for_cycles()
    centre.scontrol("release", large, user="alice")
    centre.wait_for_state(large, "RUNNING")
    centre.wait_until(lambda: len(nodes_of_runs(centre, large)) == 2, "its second run is not published", large)
    assert nodes_of_runs(centre, large) == [[own], [own]]
    assert centre.reasons(large, "start")[0] == f"on {own}:4, the node of its last run"
