"""The ranks report how long their own work of a step takes, without what they wait for the others."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.world import World
from tiresias.protocol import control, rank_files


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("rank", [0, 3])
def test_the_exchange_is_no_own_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    folder = control.job_folder(tmp_path, os.getuid(), "7")
    control.make(folder, "")
    program = Checkpointer(folder.parent / "saved", control=folder, restart=2, world=World(rank, 4, "x"))

    def works() -> list[float]:
        return [each.own for each in rank_files.work_of_ranks(tmp_path, os.getuid(), "7", 2)]

    for step in range(1, 301):
        now += 0.25
        with program.exchange():
            now += 0.75
        program._program.at = step
        program._program.publish_progress()
        if step == 59:
            assert works() == [pytest.approx(math.nan, nan_ok=True)], "not measured for long enough"
    assert works() == [pytest.approx(0.25, rel=0.05)]
    assert [json.loads(one.read_text())["rank"] for one in (folder / control.RANKS).iterdir()] == [rank]
    assert rank_files.work_of_ranks(tmp_path, os.getuid(), "7", 1) == [], "another run"
    assert rank_files.work_of_ranks(tmp_path, os.getuid() + 1, "7", 2) == []
