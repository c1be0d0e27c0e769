"""Enough GPUs are free, but not on one node: one job is preempted and resumes on another node. Real Slurm, real jobs."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci]


def test_one_job_moves_so_that_a_larger_one_gets_a_node(centre: Centre) -> None:
    centre.restart(
        policy={"thresholds": [1e6], "defragment": 1, "preemption_cost": 1.0},  # no job is preempted for its service
        placement={"unknown": "spread", "trial": "anywhere"},
    )
    pairs = [centre.train(gpus=2, seconds=600) for _ in range(8)]
    for job in pairs:
        centre.wait_until_preemptable(job)
    first_on = {centre.published(job)["nodes"][0][0]: job for job in pairs}
    assert len(first_on) == 4
    stay = list(first_on.values())
    centre.cancel(*(job for job in pairs if job not in stay))
    large = centre.train("--nodes=1", gpus=4, seconds=1, user="bob")
    record = centre.wait_for_state(large, "COMPLETED")
    assert record["NumNodes"] == "1"
    moved = [job for job in stay if centre.reasons(job, "preempt")]
    assert len(moved) == 1
    centre.wait_until_preemptable(moved[0])
    assert centre.show(moved[0])["Restarts"] == "1"
    assert centre.show(moved[0])["NodeList"] != record["NodeList"]
    assert [line for line in centre.output(moved[0]).splitlines() if line.startswith("from step")][1] != "from step 0"
