"""A job that reaches its time limit under the controller: it saves before, is requeued, and this does not count as a preemption."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]


def test_a_job_resumes_after_its_time_limit(centre: Centre) -> None:
    job = centre.train("--time=1", seconds=45)
    centre.wait_for_state(job, "COMPLETED", seconds=120)
    message = centre.explain(job)
    assert [one["why"] for one in message["decisions"] if one["action"] == "renew"] == [
        "it has saved before its time limit"
    ]
    assert message["job"]["preemptions"] == 0
    first, second = message["runs"]
    assert first["save"] is not None
    assert (first["pause"], second["redone"]) == (None, 0)
    assert second["start"] - first["end"] < 15, "it does not wait for Slurm's begin time of a requeue, two minutes"
    assert "done at step 900" in centre.output(job)


def test_the_cost_of_a_preemption_is_measured(centre: Centre) -> None:
    large = centre.train(gpus=16, seconds=10, until_preempted=True)
    centre.wait_until_preemptable(large)
    small = centre.submit(command="sleep 1", user="bob")
    centre.wait_for_state(small, "COMPLETED")
    centre.wait_until(lambda: centre.explain(large)["runs"][-1]["redone"] is not None, "no cost is recorded", large)
    centre.wait_for_cycles(2)
    first, second = centre.explain(large)["runs"]
    assert 0 < first["save"] < first["pause"] < 10
    assert 0 < second["restore"] < 10
    assert second["redone"] == 0
    assert centre.published(large)["preemption_cost"] == pytest.approx(first["pause"] + second["restore"], abs=0.01)
