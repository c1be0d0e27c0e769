"""Kill -9 of the controller right before and after every journaled step and the pin of a start, on a real Slurm with real jobs."""

from __future__ import annotations

import contextlib
import math
import time

import pytest

from tests.polling import pauses
from tests.slurm_plugin.controller import replay_checks
from tiresias.errors import TiresiasError
from tiresias.sandbox.replay.replay import Replay
from tiresias.sandbox.replay.replay_results import JobResult
from tiresias.sandbox.replay.setup import Options
from tiresias.simulator.trace import TraceJob

KILL_AT = "/opt/tiresias/tests/slurm_plugin/controller/kill_at.py"  # the checkout, as the cluster sees it
STEPS = [
    *(("preempt", step) for step in ("begin", "turn", "signal", "wait", "parked", "requeue", "drain", "finish")),
    *(("start", step) for step in ("begin", "pinned", "prioritize", "confirm", "finish")),
]
KILL_POINTS = [(kind, step, when) for kind, step in STEPS for when in ("before", "after")]
# `make test-ci`: each second step once, before it and after it in turn. `make test-chaos` has the kills in another order.
QUARTER = [point for number, point in enumerate(KILL_POINTS) if number % 8 in (0, 5)]
GPUS = 16
ENOUGH = 3  # transitions of a kind that were carried out: one controller began and completed at least one of them


def long_job(number: int) -> TraceJob:
    """Return a job on all GPUs. 30 seconds of the trace take one real second."""
    return TraceJob(job_id=str(number), submit_time=0.0, num_gpus=GPUS, duration=600.0, model="resnet50")


def short_job(number: int) -> TraceJob:
    """Return a job that preempts a long one."""
    return TraceJob(job_id=str(number), submit_time=0.0, num_gpus=8, duration=30.0, model="googlenet")


def add_what_is_missing(replay: Replay) -> None:
    """Submit a long job if none is unfinished, and a short job if a long one runs alone: a preemption and a start are to come.

    Jobs arrive as others start and end and not at fixed times, so that no duration of a controller's start matters.
    """
    unfinished = [one for one in replay.results() if not one.finished]
    if not any(one.job.num_gpus == GPUS for one in unfinished):
        replay.add([long_job(len(replay.jobs))])
    elif len(unfinished) == 1 and unfinished[0].runs and math.isnan(unfinished[0].runs[-1].end):
        replay.add([short_job(len(replay.jobs))])


def carried_out(kind: str, results: list[JobResult]) -> int:
    """Return how many starts, or preemptions and later starts of the same jobs, were carried out."""
    return sum(len(one.runs) if kind == "start" else max(len(one.runs) - 1, 0) for one in results)


def run_until_killed(replay: Replay, point: tuple[str, str, str]) -> None:
    """Run one controller until it kills itself at the given step."""
    before, pause = carried_out(point[0], replay.results()), pauses()
    with contextlib.suppress(TiresiasError):  # it may end before it answers
        replay.start_controller(("python3", KILL_AT, *point))
    while replay.controller_exit is None:
        add_what_is_missing(replay)
        more = carried_out(point[0], replay.results()) - before
        assert more < ENOUGH, f"{more} transitions of this kind were carried out, and none reached {point}"
        pause()
    assert replay.controller_exit in (137, -9), "it ended, but not by its own SIGKILL"


@pytest.mark.sandbox
@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.parametrize(
    "points",
    [QUARTER, pytest.param(KILL_POINTS, marks=[pytest.mark.long, pytest.mark.timeout(900)])],
    ids=["quarter", "all"],
)
def test_nothing_is_lost_by_a_kill_at_any_step(points: list[tuple[str, str, str]]) -> None:
    options = Options(time_scale=30.0, nodes=4, suite="forky", thresholds=(600.0,))
    with Replay("las", [long_job(0)], options) as replay:
        replay.kill_controller()
        replay.begin(time.time())
        for point in points:
            run_until_killed(replay, point)
        replay.start_controller()
        while not replay.over():
            time.sleep(0.2)
        replay.settle()
        replay.stop_controller()
        replay_checks.check(replay)
