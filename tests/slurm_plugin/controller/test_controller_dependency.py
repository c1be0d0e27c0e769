"""A job that waits for another one to end, and a job that has waited longer: which starts first when that one ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
Centre = Any  # conftest.py
NO_HOOK = {"EpilogSlurmctld": "/bin/true"}


@pytest.mark.parametrize(("settings", "first"), [({}, "older"), (NO_HOOK, "dependent")], ids=["hook", "no hook"])
def test_who_starts_when_the_job_ends(
    centre_of: Callable[..., Centre], settings: dict[str, str], first: str, request: pytest.FixtureRequest
) -> None:
    """Without the hook Slurm starts the dependent job, which is not held yet, before the controller's next cycle."""
    centre = centre_of("forky", settings=settings) if settings else centre_of("forky")
    request.addfinalizer(centre.stop)
    request.addfinalizer(centre.clean)
    centre.restart(period=30.0)
    end = centre.cluster.shared / "out" / f"end-{first}"
    runs = centre.submit(command=f"until [ -e /shared/out/{end.name} ]; do sleep 0.1; done", gpus=16)
    centre.reaches(runs, "RUNNING")
    jobs = {"older": centre.submit(gpus=16, user="bob")}
    centre.until(lambda: centre.show(jobs["older"]).get("Reason") == "JobHeldAdmin", "it is not held", jobs["older"])
    jobs["dependent"] = centre.submit(f"--dependency=afterany:{runs}", gpus=16)
    centre.scontrol("update", f"JobId={jobs['dependent']}", "StartTime=now")  # as when job_submit's wait is over
    centre.cycles(1)  # the next one by itself is up to 30 s away
    end.touch()
    started = centre.until(
        lambda: [name for name, job in jobs.items() if centre.state(job) == "RUNNING"], "none starts"
    )
    assert started == [first]
