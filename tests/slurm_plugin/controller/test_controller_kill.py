"""Kill -9 of the controller right before and after every journaled step and the pin of a start, on a real Slurm with real jobs."""

from __future__ import annotations

import contextlib
import time

import pytest

from tests.slurm_plugin.controller import replay_checks
from tiresias.errors import TiresiasError
from tiresias.sandbox.replay.replay import Replay
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


def jobs(preemptions: int) -> list[TraceJob]:
    """Return a long job on all 16 GPUs, and short jobs that each preempt it. 30 seconds of the trace take one real second."""
    long = TraceJob(job_id="0", submit_time=0.0, num_gpus=16, duration=30.0 * preemptions, model="resnet50")
    short = [
        TraceJob(job_id=str(number), submit_time=75.0 * number, num_gpus=8, duration=30.0, model="googlenet")
        for number in range(1, preemptions + 1)
    ]
    return [long, *short]


def run_until_killed(replay: Replay, point: tuple[str, str, str]) -> None:
    """Run one controller until it kills itself at the given step."""
    with contextlib.suppress(TiresiasError):  # it may end before it answers
        replay.start_controller(("python3", KILL_AT, *point))
    deadline = time.monotonic() + 60
    while replay.controller_exit is None:
        assert time.monotonic() < deadline, f"the controller did not reach {point}: {replay.status()['jobs']}"
        time.sleep(0.2)
    assert replay.controller_exit in (137, -9), "it ended, but not by its own SIGKILL"


@pytest.mark.sandbox
@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.parametrize("points", [QUARTER, pytest.param(KILL_POINTS, marks=pytest.mark.long)], ids=["quarter", "all"])
def test_nothing_is_lost_by_a_kill_at_any_step(points: list[tuple[str, str, str]]) -> None:
    options = Options(time_scale=30.0, nodes=4, suite="forky", thresholds=(600.0,))
    with Replay("las", jobs(preemptions=10 + len(points)), options) as replay:
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
