"""Elastic jobs on a real Slurm: each start gives them the GPUs that are left, under the same job id."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]


POLICY = {"sizing": "minimum_first", "preemption_cost": 1.0, "cooldown": 0.0}
OTHERS = [pytest.param(f"commands@{suite}", marks=pytest.mark.long) for suite in ("trixie", "bookworm")]


@pytest.fixture(params=["pyslurm@forky", *OTHERS])
def elastic(request: pytest.FixtureRequest, centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    """Four nodes with four GPUs each."""
    backend, suite = request.param.split("@")
    centre = centre_of(suite)
    centre.restart(backend=backend, policy=POLICY, placement={"trial": "anywhere"})
    yield centre
    centre.stop("KILL")
    centre.clean()


def sizes(centre: Centre, job: str) -> list[int]:
    """Return the GPUs of each run of the job, as the journal has them."""
    query = f"select gpus from run join job using (key) where id = '{job}' order by restart"
    return [row[0] for row in centre.query_journal(query)]


def wait_for_size(centre: Centre, job: str, gpus: int) -> None:
    centre.wait_until(lambda: sizes(centre, job)[-1:] == [gpus] and centre.state(job) == "RUNNING", f"not {gpus}", job)


def test_a_job_gets_what_is_left_and_gives_it_back(elastic: Centre) -> None:
    job = elastic.train("--elastic=2-16:2", "--ntasks=4", "--gpus-per-task=1", gpus=0, seconds=300)
    wait_for_size(elastic, job, 16)
    assert elastic.show(job)["NumTasks"] == "16"
    elastic.wait_until_preemptable(job)
    other = elastic.train(gpus=6, seconds=15, user="bob")
    elastic.wait_for_state(other, "RUNNING")
    wait_for_size(elastic, job, 10)
    elastic.wait_until_preemptable(job)
    elastic.wait_for_state(other, "COMPLETED")
    wait_for_size(elastic, job, 16)
    assert elastic.state(job) == "RUNNING"


def test_nodes_change_where_gpus_are_stated_for_each_node(elastic: Centre) -> None:
    other = elastic.train("--nodes=3", gpus=12, seconds=300, user="bob")
    elastic.wait_for_state(other, "RUNNING")
    request = ("--nodes=2", "--ntasks-per-node=2", "--gpus-per-node=4", "--cpus-per-task=2")
    job = elastic.train("--elastic=4-16", *request, gpus=0, seconds=300)
    wait_for_size(elastic, job, 4)
    assert (elastic.show(job)["NumNodes"], elastic.show(job)["NumTasks"]) == ("1", "2")
    elastic.wait_until_preemptable(job)
    elastic.cancel(other, user="bob")
    wait_for_size(elastic, job, 16)
    assert (elastic.show(job)["NumNodes"], elastic.show(job)["NumTasks"], elastic.show(job)["NumCPUs"]) == (
        "4",
        "8",
        "16",
    )
