"""Four real processes at different speeds: they stop at one step, commit one checkpoint, and go on from it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tiresias.checkpoint import Store
from tiresias.protocol import control


def request_stop(launch: Any, target: str) -> None:
    if target == "all":
        for rank in launch.ranks:
            rank.send_signal(signal.SIGUSR2)
    elif target == "stop file":
        launch.stop_file.touch()
    else:
        launch.ranks[int(target)].send_signal(signal.SIGTERM)


@pytest.mark.parametrize("lockstep", [True, False])
@pytest.mark.parametrize("target", ["0", "2", "all", "stop file"])
def test_all_ranks_stop_at_one_step(tmp_path: Path, launch_of: Any, target: str, lockstep: bool) -> None:
    launch = launch_of(tmp_path, lockstep=lockstep)
    launch.lines()
    time.sleep(0.7)  # anywhere in the training: what is tested may not depend on when
    request_stop(launch, target)
    ends = launch.ends()
    assert len({step for _, step, _ in ends}) == 1, ends
    report = control.read(launch.control / control.PROGRAM, os.getuid())
    assert report["requeue"] is True
    assert report["step"] == int(ends[0][1])


def test_each_rank_gets_its_own_state_back_and_rank_0s_for_the_rest(tmp_path: Path, launch_of: Any) -> None:
    before = [["stop", "0", str(rank)] for rank in range(4)]
    for number in range(3):
        launch = launch_of(tmp_path, number)
        shared = " by rank 0" if number else " "
        assert launch.lines() == [f"start {step} {own}{shared}" for _, step, own in before]
        request_stop(launch, "0")
        before = launch.ends()
        assert Store(launch.checkpoints).verify(int(before[0][1])).world_size == 4


def test_another_world_size_is_refused_or_gets_all_shards(
    tmp_path: Path, launch_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = launch_of(tmp_path, speeds=(0.001, 0.001))
    launch.lines()
    request_stop(launch, "0")
    ends = launch.ends()
    step, own = ends[0][1:]
    refused = launch_of(tmp_path, 1, speeds=(0.001, 0.001, 0.001))
    for rank in refused.ranks:
        assert "written by 2 ranks, now there are 3: start as many again" in rank.communicate(timeout=60)[1]
        assert rank.returncode == 1
    monkeypatch.setenv("RESHARD", "")
    wider = launch_of(tmp_path, 2, speeds=(0.001, 0.001, 0.001))
    assert wider.lines()[2] == f"start {step} {own} by rank 0"
    assert wider.lines() == [f"shards {own} {ends[1][2]}"] * 3
    request_stop(wider, "0")
    wider.ends()


@pytest.mark.parametrize("dies", [0, 2])
@pytest.mark.parametrize("when", ["before it saves", "before it looks"])
def test_a_rank_that_dies_while_stopping(
    tmp_path: Path, launch_of: Any, dies: int, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others end with an error that names it, soon; the checkpoint before stays."""
    monkeypatch.setenv("RESHARD", "")
    first = launch_of(tmp_path, speeds=(0.001, 0.001, 0.001))
    first.lines()
    request_stop(first, "0")
    step = first.ends()[0][1]
    monkeypatch.setenv("DIES", f"{dies} {when}")
    launch = launch_of(tmp_path, 1, speeds=(0.002, 0.002, 0.002))
    launch.lines()
    if when == "before it looks":  # else another rank may stop all of them before this one has seen its signal
        launch.ranks[dies].send_signal(signal.SIGUSR2)
        launch.ranks[dies].wait(60)
    request_stop(launch, "all")
    start = time.monotonic()
    outputs = [rank.communicate(timeout=60)[1] for rank in launch.ranks]
    assert time.monotonic() - start < 30
    assert [rank.returncode for rank in launch.ranks] == [-9 if rank == dies else 1 for rank in range(3)]
    for rank, errors in enumerate(outputs):
        assert rank == dies or f"rank {dies} has ended" in errors or "gave up" in errors, errors
    assert Store(launch.checkpoints).steps() == [int(step)]
    monkeypatch.delenv("DIES")
    assert launch_of(tmp_path, 2, speeds=(0.001, 0.001, 0.001)).lines()[0].startswith(f"start {step} ")


def test_a_rank_that_is_done_does_not_end_the_others(
    tmp_path: Path, launch_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 has come to its end when the others are asked to stop: they train on to their own."""
    monkeypatch.setenv("LAST", "300")
    launch = launch_of(tmp_path, speeds=(0.0, 0.01, 0.01))
    launch.lines()
    assert launch.ranks[0].wait(60) == 0
    request_stop(launch, "all")
    assert [rank.wait(60) for rank in launch.ranks] == [0, 0, 0]
