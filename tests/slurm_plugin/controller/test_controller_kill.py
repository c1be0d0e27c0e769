"""Kill -9 of the controller right before and after every journaled step and the pin of a start, on a real Slurm with real jobs."""

from __future__ import annotations

import contextlib
import time

import pytest

from tests.slurm_plugin.controller import books
from tiresias.errors import TiresiasError
from tiresias.sandbox.replay.replay import Replay
from tiresias.sandbox.replay.setup import Options
from tiresias.simulator.trace import TraceJob

KILL_AT = "/opt/tiresias/tests/slurm_plugin/controller/kill_at.py"  # the checkout, as the cluster sees it
STEPS = [
    *(("preempt", step) for step in ("begin", "turn", "signal", "wait", "parked", "requeue", "drain", "finish")),
    *(("start", step) for step in ("begin", "pinned", "prioritize", "confirm", "finish")),
]
LIVES = [(kind, step, when) for kind, step in STEPS for when in ("before", "after")]
# `make test`: each step once, before it and after it in turn. `make test-chaos` has the kills in another order.
HALF = [life for number, life in enumerate(LIVES) if number % 4 in (0, 3)]


def jobs() -> list[TraceJob]:
    """A long job on all 16 GPUs, which every one of the short ones has to preempt. Seconds of the trace: 30 to a real one."""
    long = TraceJob(job_id="0", submit_time=0.0, num_gpus=16, duration=1200.0, model="resnet50")
    short = [
        TraceJob(job_id=str(number), submit_time=75.0 * number, num_gpus=8, duration=30.0, model="googlenet")
        for number in range(1, 41)
    ]
    return [long, *short]


def live(replay: Replay, life: tuple[str, str, str]) -> None:
    """One controller until it kills itself at its step."""
    with contextlib.suppress(TiresiasError):  # it may die before it answers
        replay.start_controller(("python3", KILL_AT, *life))
    deadline = time.monotonic() + 60
    while replay.controller_exit is None:
        assert time.monotonic() < deadline, f"the controller never came to {life}: {replay.status()['jobs']}"
        time.sleep(0.05)
    assert replay.controller_exit in (137, -9), "it died of something else than its own SIGKILL"


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize("lives", [HALF, pytest.param(LIVES, marks=pytest.mark.long)], ids=["half", "all"])
def test_nothing_is_lost_whichever_step_it_dies_at(lives: list[tuple[str, str, str]]) -> None:
    options = Options(time_scale=30.0, nodes=4, suite="forky", thresholds=(600.0,))
    with Replay("las", jobs(), options) as replay:
        replay.kill_controller()
        replay.begin(time.time())
        for life in lives:
            live(replay, life)
        replay.start_controller()
        while not replay.over():
            time.sleep(0.2)
        replay.settle()
        replay.stop_controller()
        books.check(replay)
