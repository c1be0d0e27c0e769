"""On a real Slurm the number of parameter servers changes alone where the measured steps show a gain."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tests.slurm_plugin.controller.test_controller_elastic import numbers

pytestmark = [pytest.mark.sandbox, pytest.mark.long, pytest.mark.slow]

POLICY = {"sizing": "minimum_first", "preemption_cost": 1.0, "cooldown": 0.0, "min_run": 0.0}


@pytest.fixture(params=["pyslurm@forky", "commands@trixie", "commands@bookworm"])
def centre(request: pytest.FixtureRequest, centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    """Four nodes with four GPUs each."""
    backend, suite = request.param.split("@")
    centre = centre_of(suite)
    centre.restart(backend=backend, policy=POLICY, placement={"trial": "anywhere"}, progress={"timed": 2.0})
    yield centre
    centre.stop("KILL")
    centre.clean()


def served(centre: Centre) -> str:
    """Submit a job whose steps are as much faster as it has servers. All such jobs are of one kind."""
    request = ("--elastic=1-8", "--servers=1-4", "--ntasks=2", "--gpus-per-task=1", "--cpus-per-task=2")
    return centre.train(*request, gpus=0, seconds=3000, habit="served")


def wait_until_timed(centre: Centre, job: str) -> None:
    query = f"select timed is not null from run join job using (key) where id = '{job}' order by restart desc"
    centre.wait_until(lambda: centre.query_journal(query)[:1] == [(1,)], "its steps are not timed", job)


def test_only_the_servers_change_where_the_measured_steps_show_a_gain(centre: Centre) -> None:
    """An earlier job of the kind was timed with 8 GPUs and 4 servers. With 4 GPUs the job starts with 2 servers, as many in
    proportion; once its steps are timed, 4 servers are predicted to be faster."""
    earlier = served(centre)
    centre.wait_until(lambda: numbers(centre, earlier) == [(8, 4)], "it has other numbers", earlier)
    wait_until_timed(centre, earlier)
    centre.cancel(earlier)
    other = centre.submit(gpus=12, user="bob")
    centre.wait_for_state(other, "RUNNING")
    job = served(centre)
    centre.wait_until(lambda: numbers(centre, job) == [(4, 2), (4, 4)], "its servers do not change", job, seconds=120)
    centre.wait_until_preemptable(job)
    assert (centre.show(job)["NumTasks"], centre.show(job)["NumCPUs"]) == ("4", "16"), "with the CPUs of the servers"
    assert centre.reasons(job, "resize")[0].startswith("from 2 to 4 parameter servers; predicted: ")
    wait_until_timed(centre, job)
    before, after = centre.query_journal(
        f"select timed from run join job using (key) where id = '{job}' order by restart"
    )
    assert after[0] < 0.8 * before[0], "its steps are faster"
    assert centre.explain(job)["job"]["servers"] == 4
