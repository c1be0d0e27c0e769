"""A job that reaches its time limit under the controller: it saves before, is requeued, and that is no preemption."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
Centre = Any  # conftest.py


def test_a_job_goes_on_after_its_time_limit(centre: Centre) -> None:
    job = centre.train("--time=1", seconds=45)
    centre.reaches(job, "COMPLETED", seconds=120)
    message = centre.explain(job)
    assert [one["why"] for one in message["decisions"] if one["action"] == "renew"] == [
        "it has saved before its time limit"
    ]
    assert message["job"]["preemptions"] == 0
    first, second = message["runs"]
    assert first["save"] is not None
    assert (first["pause"], second["redone"]) == (None, 0)
    assert second["start"] - first["end"] < 15, "nobody waits for Slurm's two minutes"
    assert "done at step 900" in centre.output(job)


def test_what_a_preemption_costs_is_learned(centre: Centre) -> None:
    whale = centre.train(gpus=16, seconds=10)
    centre.trains(whale)
    small = centre.submit(command="sleep 1", user="bob")
    centre.reaches(small, "COMPLETED")
    centre.until(lambda: centre.explain(whale)["runs"][-1]["redone"] is not None, "no cost is known", whale)
    centre.cycles(2)
    first, second = centre.explain(whale)["runs"]
    assert 0 < first["save"] < first["pause"] < 10
    assert 0 < second["restore"] < 10
    assert second["redone"] == 0
    assert centre.published(whale)["preemption_cost"] == pytest.approx(first["pause"] + second["restore"], abs=0.01)
