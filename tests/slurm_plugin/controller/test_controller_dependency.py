"""A dependent job and a job that was submitted earlier: which starts first when the running job ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
NO_HOOK = {"EpilogSlurmctld": "/bin/true"}


@pytest.mark.parametrize(("settings", "first"), [({}, "older"), (NO_HOOK, "dependent")], ids=["hook", "no hook"])
def test_the_hook_decides_which_job_starts_first_when_a_job_ends(
    centre_of: Callable[..., Centre], settings: dict[str, str], first: str, request: pytest.FixtureRequest
) -> None:
    """Without the hook Slurm starts the dependent job, which is not held yet, before the controller's next cycle."""
    centre = centre_of("forky", settings=settings) if settings else centre_of("forky")
    request.addfinalizer(centre.stop)
    request.addfinalizer(centre.clean)
    centre.restart(period=30.0)
    end = centre.cluster.shared / "out" / f"end-{first}"
    runs = centre.submit(command=f"until [ -e /shared/out/{end.name} ]; do sleep 0.1; done", gpus=16)
    centre.wait_for_state(runs, "RUNNING")
    jobs = {"older": centre.submit(gpus=16, user="bob")}
    centre.wait_until(
        lambda: centre.show(jobs["older"]).get("Reason") == "JobHeldAdmin", "it is not held", jobs["older"]
    )
    jobs["dependent"] = centre.submit(f"--dependency=afterany:{runs}", gpus=16)
    centre.scontrol(
        "update", f"JobId={jobs['dependent']}", "StartTime=now"
    )  # as at the end of the delay by job_submit.lua
    centre.wait_for_cycles(1)  # the next one is up to 30 s later
    end.touch()
    started = centre.wait_until(
        lambda: [name for name, job in jobs.items() if centre.state(job) == "RUNNING"], "none starts"
    )
    assert started == [first]
