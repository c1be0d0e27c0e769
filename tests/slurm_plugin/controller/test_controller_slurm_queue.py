"""Unmanaged jobs that Slurm ranks first do not delay the starts of guaranteed jobs. Real Slurm with a slow backfill scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tests.slurm_plugin.controller.test_controller_virtual_clusters import SHARED, TABLES, guaranteed, train
from tiresias.sandbox.slurm_conf import SCHEDULER_PARAMETERS

pytestmark = [pytest.mark.sandbox, pytest.mark.long]

BACKFILL_S = 60  # between two passes of the backfill scheduler
PARAMETERS = SCHEDULER_PARAMETERS.replace("bf_interval=1,", f"bf_interval={BACKFILL_S},")
CONTROLLER = SHARED | {"preemption": {"deadline": 20.0, "start_timeout": 2.0 * BACKFILL_S, "backoff": 1.0}}
HALF = BACKFILL_S / 2  # seconds: a start within them is none of the backfill scheduler


@pytest.fixture
def slow_backfill(centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    """Two virtual clusters of two nodes each, where Slurm's backfill scheduler makes a pass a minute."""
    centre = centre_of("forky", settings={"SchedulerParameters": PARAMETERS})
    centre.restart(virtual_clusters=TABLES, **CONTROLLER)
    yield centre
    centre.stop("KILL")
    centre.clean()


@pytest.mark.parametrize("kind", ["heterogeneous", "CPU-only"])
def test_an_unmanaged_job_delays_no_guaranteed_start(slow_backfill: Centre, kind: str) -> None:
    """It waits for four nodes, of which one is in use without a time limit; the guaranteed job starts on a free one."""
    busy = train(slow_backfill, "research", seconds=300)
    slow_backfill.wait_for_state(busy, "RUNNING")
    foreign = submit_unmanaged(slow_backfill, kind, "--nodes=4")
    job = train(slow_backfill, "prod", user="bob")
    slow_backfill.wait_for_state(job, "RUNNING", seconds=HALF)
    slow_backfill.wait_until(lambda: slow_backfill.reasons(job, "goes first"), "it was not put first", job)
    slow_backfill.wait_until(lambda: guaranteed(slow_backfill, job) == [True], "the job has no cells", job)
    slow_backfill.wait_until(
        lambda: 0 < int(slow_backfill.show(job)["Priority"]) < 2**32 - 6, "its priority stays", job
    )
    assert slow_backfill.state(foreign) == "PENDING"


def test_an_unmanaged_job_keeps_the_nodes_that_slurm_has_planned_for_it(slow_backfill: Centre) -> None:
    """It needs all four nodes, of which one is in use; it is not overtaken by a job that would end later."""
    busy = train(slow_backfill, "research", "--time=10", seconds=300)
    slow_backfill.wait_for_state(busy, "RUNNING")
    foreign = submit_unmanaged(slow_backfill, "CPU-only", "--nodes=4", "--time=5")
    slow_backfill.wait_until(
        lambda: slow_backfill.scontrol("show", "node").count("PLANNED") == 4,
        "no nodes are planned",
        seconds=2 * BACKFILL_S,
    )
    job = train(slow_backfill, "prod", "--time=60", user="bob")
    slow_backfill.wait_until(lambda: slow_backfill.reasons(job, "start"), "it is not released", job)
    slow_backfill.cancel(busy)
    slow_backfill.wait_for_state(foreign, "RUNNING", seconds=2 * BACKFILL_S)
    assert (slow_backfill.state(job), slow_backfill.reasons(job, "goes first")) == ("PENDING", [])


def submit_unmanaged(centre: Centre, kind: str, *options: str) -> str:
    """Submit a job for whole nodes that the controller does not manage, and wait until Slurm ranks it."""
    of_kind = {
        "heterogeneous": ("--gres=gpu:4", *options, ":", "--ntasks=1", "--cpus-per-task=1"),
        "CPU-only": ("--ntasks-per-node=16", *options),
    }
    job = centre.submit(*of_kind[kind], gpus=0)
    centre.wait_until(lambda: centre.state(job) == "PENDING", "it does not wait", job)
    return job
