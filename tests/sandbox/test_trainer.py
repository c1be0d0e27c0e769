"""The trainer as a process: stopped, killed and resumed, it goes through the same losses as one that was left alone."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tiresias.checkpoint import EXIT_REQUEUE
from tiresias.protocol import control, progress
from tiresias.sandbox.trainer_state import TrainerState
from tiresias.wrappers import batch_script, isolated

SECONDS, SCALE = 120.0, 60.0  # two seconds of real time
STEPS = round(SECONDS / 0.127)  # googlenet


def trainer(folder: Path, *, every: float, gpus: int = 1, model: str = "googlenet") -> list[str]:
    (folder / "results").mkdir(exist_ok=True)
    return [
        sys.executable, "-m", "tiresias.sandbox.trainer", "--job", "7", "--model", model, "--gpus", str(gpus),
        "--seconds", str(SECONDS), "--time-scale", str(SCALE), "--checkpoint-every", str(every),
        "--results", str(folder / "results"),
    ]  # fmt: skip


def start(
    folder: Path, *, every: float = 0.3, nodes: int = 1, gpus: int = 1, model: str = "googlenet", restart: int = 0
) -> subprocess.Popen[bytes]:
    command = [*trainer(folder, every=every, gpus=gpus, model=model), "--checkpoints", str(folder / "checkpoints")]
    environment = os.environ | {"SLURM_JOB_NUM_NODES": str(nodes), "SLURM_RESTART_COUNT": str(restart)}
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


def start_supervised(folder: Path, restart: int, script: str = "") -> subprocess.Popen[bytes]:
    """As slurmd runs what tsbatch submitted; Slurm's part (variables, signals) is played."""
    roots = {f"TIRESIAS_{name.upper()}_ROOT": str(folder / name) for name in ("control", "checkpoint")}
    script = script or f"#!/bin/bash\nexec {shlex.join(trainer(folder, every=60))}\n"
    batch = folder / f"slurm_script-{restart}"
    batch.write_bytes(batch_script.compose(script.encode(), sys.executable, str(isolated.LIBRARY), roots))
    slurm = {"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": str(restart)}
    command = ["/bin/sh", str(batch)]
    return subprocess.Popen(command, env=os.environ | roots | slurm, stderr=subprocess.DEVNULL, start_new_session=True)


def events(folder: Path) -> list[dict[str, Any]]:
    log = folder / "results/7.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def step(folder: Path) -> int:
    return int((folder / "results/7.step").read_bytes() or b"0")


def newest_checkpoint(folder: Path) -> int:
    return max((int(path.name[5:]) for path in (folder / "checkpoints").glob("step-*")), default=0)


def until(condition: Callable[[], bool], folder: Path, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, events(folder)
        time.sleep(0.01)


def started(folder: Path, runs: int) -> Callable[[], bool]:
    """The run number `runs` has come some way."""

    def condition() -> bool:
        starts = [event for event in events(folder) if event["event"] == "start"]
        return len(starts) == runs and step(folder) > starts[-1]["first_step"] + 20

    return condition


def undisturbed_curve() -> str:
    state = TrainerState.fresh("7")
    state.advance(STEPS)
    return state.curve_text


def test_uninterrupted(tmp_path: Path) -> None:
    assert start(tmp_path).wait(30) == 0
    first, last = events(tmp_path)
    assert (last["steps"], last["step"], last["steps_per_run"], last["redone"]) == (STEPS, STEPS, [STEPS], 0)
    assert last["curve"] == undisturbed_curve()
    assert last["time"] - first["time"] >= SECONDS / SCALE


@pytest.mark.parametrize("signal_number", [signal.SIGUSR2, signal.SIGTERM])
def test_stopped_twice_nothing_is_redone(tmp_path: Path, signal_number: signal.Signals) -> None:
    for runs in (1, 2):
        process = start(tmp_path, every=60, restart=runs - 1)
        until(started(tmp_path, runs), tmp_path)
        process.send_signal(signal_number)
        assert process.wait(20) == EXIT_REQUEUE
    assert start(tmp_path, restart=2).wait(30) == 0
    log = events(tmp_path)
    assert [event["event"] for event in log] == ["start", "stop", "start", "stop", "start", "finish"]
    assert [event["restart"] for event in log if event["event"] == "start"] == [0, 1, 2]
    for stop, again in itertools.pairwise(log[1:5]):
        if stop["event"] == "stop":
            assert again["first_step"] == stop["step"]
    assert log[-1]["redone"] == 0
    assert sum(log[-1]["steps_per_run"]) == STEPS
    assert log[-1]["curve"] == undisturbed_curve()


def test_preempted_three_times_through_the_supervisor(tmp_path: Path) -> None:
    def report() -> control.JobReport:
        return control.report(tmp_path / "control", os.getuid(), "12")

    def parked(restart: int) -> bool:
        return (report().restart, report().state) == (restart, "parked")

    for restart in range(3):
        process = start_supervised(tmp_path, restart)
        until(started(tmp_path, restart + 1), tmp_path)
        process.send_signal(signal.SIGUSR2)  # scancel --batch
        until(partial(parked, restart), tmp_path)
        process.send_signal(signal.SIGTERM)  # the requeue
        assert process.wait(10) == EXIT_REQUEUE
    assert start_supervised(tmp_path, 3).wait(30) == 0
    log = events(tmp_path)
    assert [event["event"] for event in log] == ["start", "stop"] * 3 + ["start", "finish"]
    assert log[-1]["redone"] == 0
    assert log[-1]["curve"] == undisturbed_curve()


def test_it_reports_its_steps_and_their_total(tmp_path: Path) -> None:
    script = f"#!/bin/bash\nexec {shlex.join([*trainer(tmp_path, every=60), '--report-every', '0.01'])}\n"
    process = start_supervised(tmp_path, 0, script)
    seen = set()
    while process.poll() is None:
        seen.add(progress.read(tmp_path / "control", os.getuid(), "12"))
        time.sleep(0.01)
    reports = sorted(one for one in seen if one.step >= 0)
    assert len(reports) > 5
    assert {one.total for one in reports} == {STEPS}
    assert all(0 < one.step <= STEPS for one in reports)


def test_killed_only_steps_since_the_last_checkpoint_are_redone(tmp_path: Path) -> None:
    process = start(tmp_path)
    until(lambda: newest_checkpoint(tmp_path) > 0 and step(tmp_path) > newest_checkpoint(tmp_path), tmp_path)
    process.kill()
    process.wait(10)
    lost = step(tmp_path) - newest_checkpoint(tmp_path)
    assert start(tmp_path, restart=1).wait(30) == 0
    log = events(tmp_path)
    assert [event["event"] for event in log] == ["start", "start", "finish"]
    assert log[1]["redone"] == log[-1]["redone"] == lost
    assert sum(log[-1]["steps_per_run"]) == STEPS + lost
    assert log[-1]["curve"] == undisturbed_curve()


def test_a_bad_placement_costs_a_skewed_model_time(tmp_path: Path) -> None:
    assert start(tmp_path, model="vgg11", gpus=4, nodes=4).wait(30) == 0
    first, last = events(tmp_path)
    assert first["slowdown"] == 1.67
    assert last["time"] - first["time"] >= 1.67 * SECONDS / SCALE
