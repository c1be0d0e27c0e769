"""The default policy on a real Slurm: which jobs it preempts, and the start of a starving job. Times are scaled down."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
ADAPTIVE = {"name": "adaptive", "preemption_cost": 1.0}


def test_a_long_training_is_preempted_for_a_new_job_and_resumes(centre: Centre) -> None:
    centre.restart(policy=ADAPTIVE)
    old = [centre.train(gpus=4, seconds=300) for _ in range(4)]
    for job in old:
        centre.wait_until_preemptable(job)
    centre.wait_until(lambda: all(centre.published(job)["ran"] > 5.0 for job in old), "they do not run", *old)
    new = centre.submit(gpus=4, user="bob", command="sleep 3")
    centre.wait_for_state(new, "COMPLETED")
    (preempted,) = [job for job in old if centre.reasons(job, "preempt")]
    centre.wait_until(lambda: "resumes from step" in centre.output(preempted), "it does not resume", preempted)
    assert [queue["index"] for queue in centre.status()["queues"]] == [0]


def test_a_starving_job_takes_the_gpus_of_a_larger_one(centre: Centre) -> None:
    centre.restart(policy={**ADAPTIVE, "preemption_cost": 30.0, "starve_limit": 10.0})
    large = centre.train(gpus=16, seconds=300)
    centre.wait_until_preemptable(large)
    small = centre.submit(gpus=1, user="bob")
    centre.wait_until(lambda: centre.published(small).get("waited", 0.0) > 4.0, "it does not wait", small)
    assert not centre.reasons(large, "preempt")
    centre.wait_for_state(small, "RUNNING")
    assert centre.reasons(large, "preempt")
