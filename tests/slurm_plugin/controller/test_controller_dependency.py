"""Dependent jobs: which starts first when the running job ends, and one that is held when it gets its dependency."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
NO_HOOK = {"EpilogSlurmctld": "/bin/true"}
PERIOD_S = 30.0
HOUR_S = 3600.0


@pytest.fixture
def centre_with(centre_of: Callable[..., Centre], request: pytest.FixtureRequest) -> Callable[..., Centre]:
    def get(settings: dict[str, str], period: float) -> Centre:
        centre = centre_of("forky", settings=settings) if settings else centre_of("forky")
        request.addfinalizer(centre.stop)
        request.addfinalizer(centre.clean)
        centre.restart(period=period)
        return centre

    return get


def first_start_after_an_end(centre: Centre, is_delayed: bool) -> str:
    """Return which job starts when another one, that holds all GPUs, ends: the older or the dependent one.

    Args:
        centre: With a controller and no jobs.
        is_delayed: Whether job_submit.lua still delays the dependent job at that time.
    """
    end = centre.cluster.shared / "out" / "end"
    end.unlink(missing_ok=True)
    runs = centre.submit(command=f"until [ -e /shared/out/{end.name} ]; do sleep 0.1; done", gpus=16)
    centre.wait_for_state(runs, "RUNNING")
    jobs = {"older": centre.submit(gpus=16, user="bob")}
    centre.wait_until(
        lambda: centre.show(jobs["older"]).get("Reason") == "JobHeldAdmin", "it is not held", jobs["older"]
    )
    jobs["dependent"] = centre.submit(f"--dependency=afterany:{runs}", gpus=16)
    if not is_delayed:
        centre.scontrol("update", f"JobId={jobs['dependent']}", "StartTime=now")
        centre.wait_for_cycles(1)  # the next one is up to PERIOD_S later
    end.touch()
    (first,) = centre.wait_until(
        lambda: [name for name, job in jobs.items() if centre.state(job) == "RUNNING"], "none starts", *jobs.values()
    )
    return first


def test_without_the_hook_slurm_starts_the_dependent_job_first(centre_with: Callable[..., Centre]) -> None:
    """It is not held yet, and the controller's next cycle is later."""
    assert first_start_after_an_end(centre_with(NO_HOOK, PERIOD_S), is_delayed=False) == "dependent"


def test_the_hook_lets_the_controller_start_the_older_job_first(centre_with: Callable[..., Centre]) -> None:
    """Only the hook can cause the cycle that starts it: the next one without a hook is an hour later.

    Slurm does not wait for the controller: without the delay it may start the dependent job before that cycle.
    """
    assert first_start_after_an_end(centre_with({}, HOUR_S), is_delayed=True) == "older"


def test_a_dependency_that_is_added_to_a_held_job_is_waited_for(centre_with: Callable[..., Centre]) -> None:
    """Slurm does not examine the dependencies of a held job: the controller held it, and waited for the dependency, for ever."""
    centre = centre_with({}, 0.5)
    runs, other = centre.submit(gpus=16), centre.submit(gpus=1, user="bob")
    centre.wait_for_state(runs, "RUNNING")
    job = centre.submit(gpus=16)
    centre.wait_until(lambda: centre.show(job).get("Reason") == "JobHeldAdmin", "it is not held", job)
    centre.scontrol("update", f"JobId={job}", f"Dependency=afterany:{other}", user="alice")
    centre.wait_until(lambda: centre.show(job).get("Reason") == "Dependency", "it stays held", job)
    centre.cancel(runs)
    centre.cancel(other, user="bob")
    centre.wait_for_state(job, "RUNNING")
