"""A job that reaches its time limit under the controller: it saves before, is requeued, and this does not count as a preemption."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre, with_backend
from tests.wrappers.conftest import Site

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
PROGRAM = "/opt/tiresias/tests/wrappers/training.py"


@pytest.fixture(params=["pyslurm@forky", "commands@bookworm"])
def of_release(request: pytest.FixtureRequest, centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    """A controller on 26.05, and on 22.05, which passes jobs no end of their time."""
    yield from with_backend(centre_of, request.param)


def test_a_job_resumes_after_its_time_limit(of_release: Centre) -> None:
    """Its result depends on every step."""
    centre = of_release
    program = centre.submit(
        "--time=1", command=f"exec python3 {PROGRAM} 4500 0.01 /shared/out/$SLURM_JOB_ID.result", by="tsbatch", gpus=8
    )
    job = centre.train("--time=1", seconds=45, gpus=8)
    for each in (program, job):
        assert centre.wait_for_state(each, "COMPLETED", seconds=150)["Restarts"] == "1"
    assert (centre.cluster.shared / "out" / f"{program}.result").read_text() == Site.trained(4500)
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


def expected_end(centre: Centre, job: str) -> Any:
    """Return the end of the run that the supervisor reports, 0 without a limit; None where it reports none yet."""
    paths = list(centre.cluster.shared.glob(f"tiresias/control/*/{job}/supervisor.json"))
    return json.loads(paths[0].read_text()).get("end") if paths else None


def test_a_job_saves_before_a_limit_that_was_reduced_while_it_ran(of_release: Centre) -> None:
    """From half an hour to a minute, or from no limit; its result depends on every step."""
    centre = of_release
    words = f"exec python3 {PROGRAM} 4500 0.01 /shared/out/$SLURM_JOB_ID.result"
    limits = {"--time=30": "the time limit was changed by -29 min", "--time=UNLIMITED": "a time limit was set"}
    jobs = [centre.submit(limit, command=words, by="tsbatch", gpus=8) for limit in limits]
    for job in jobs:
        centre.wait_until_preemptable(job)
        centre.wait_until(lambda job=job: expected_end(centre, job) is not None, "it reports no end", job)
        centre.scontrol("update", f"job={job}", "TimeLimit=1")
    for job, message in zip(jobs, limits.values(), strict=True):
        centre.wait_until(lambda job=job: "before its time limit" in centre.output(job), "it does not save", job)
        assert message in centre.output(job)
        left = re.search(r"the run ends in (\d+) s", centre.output(job))
        assert left is not None
        assert int(left[1]) < 60
    for job in jobs:
        assert centre.wait_for_state(job, "COMPLETED", seconds=150)["Restarts"] == "1"
        assert "run 1 resumes from step" in centre.output(job)
        assert (centre.cluster.shared / "out" / f"{job}.result").read_text() == Site.trained(4500)
        assert centre.explain(job)["job"]["preemptions"] == 0


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
