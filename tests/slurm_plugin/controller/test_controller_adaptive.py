"""The default policy on a real Slurm: what it preempts, and what a starving job gets. Times are scaled down."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
Centre = Any  # conftest.py
ADAPTIVE = {"name": "adaptive", "preemption_cost": 1.0}


def test_a_long_training_is_preempted_for_a_new_job_and_resumes(centre: Centre) -> None:
    centre.restart(policy=ADAPTIVE)
    old = [centre.train(gpus=4, seconds=300) for _ in range(4)]
    for job in old:
        centre.trains(job)
    centre.until(lambda: all(centre.published(job)["ran"] > 5.0 for job in old), "they do not run", *old)
    new = centre.submit(gpus=4, user="bob", command="sleep 3")
    centre.reaches(new, "COMPLETED")
    (parted,) = [job for job in old if centre.said(job, "preempt")]
    centre.until(lambda: "resumes from step" in centre.output(parted), "it does not resume", parted)
    assert [queue["index"] for queue in centre.status()["queues"]] == [0]


def test_a_starving_job_takes_the_gpus_of_a_larger_one(centre: Centre) -> None:
    centre.restart(policy={**ADAPTIVE, "starve_limit": 10.0})
    whale = centre.train(gpus=16, seconds=300)
    centre.trains(whale)
    small = centre.submit(gpus=1, user="bob")
    centre.until(lambda: centre.published(small).get("waited", 0.0) > 4.0, "it does not wait", small)
    assert not centre.said(whale, "preempt")
    centre.reaches(small, "RUNNING")
    assert centre.said(whale, "preempt")
