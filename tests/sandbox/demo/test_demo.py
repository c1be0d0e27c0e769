"""The demonstration as in a talk: on a terminal, with a real cluster, until a viewer presses q; then the film of it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pyte
import pytest

from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.demo.demo_workload import GPUS_PER_NODE, NODES, workload

WAIT_TIMEOUT_S = 120.0
FILM = Path(__file__).parents[3] / "docs/film.py"
SIZED = ["sh", "-c", 'stty cols 120 rows 40; exec "$@"', "sh"]
SHOWN = (r"\balice\b", r"\bbob\b", r"\bpreempt\b")


class Audience:
    """The viewer: reads the terminal and presses keys."""

    def __init__(self, master: int) -> None:
        self.master, self.screen = master, pyte.Screen(120, 40)
        self._stream, self.received = pyte.ByteStream(self.screen), b""

    def until(self, *patterns: str) -> None:
        """Until all of these were seen, not necessarily at once."""
        missing, deadline = set(patterns), time.monotonic() + WAIT_TIMEOUT_S
        while missing:
            assert self.looks(deadline), f"never seen: {missing}\n{self.display()}"
            missing = {each for each in missing if not re.search(each, self.display())}

    def looks(self, deadline: float) -> bool:
        """False when it is over."""
        if not select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        with contextlib.suppress(OSError):
            data = os.read(self.master, 65536)
            self._stream.feed(data)
            self.received += data
            return bool(data)
        return False

    def display(self) -> str:
        return "\n".join(self.screen.display)

    def types(self, keys: bytes) -> None:
        os.write(self.master, keys)


@contextlib.contextmanager
def talk(*options: str) -> Iterator[tuple[Audience, subprocess.Popen[bytes]]]:
    master, slave = pty.openpty()
    command = [*SIZED, sys.executable, "-m", "tiresias", "sandbox", "demo", *options]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    try:
        yield Audience(master), process
    finally:
        process.terminate()
        process.wait(WAIT_TIMEOUT_S)
        os.close(master)


def film() -> ModuleType:
    spec = importlib.util.spec_from_file_location("film", FILM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_workload_exceeds_the_gpus_and_each_job_fits() -> None:
    jobs = workload()
    assert {job.user for job in jobs} == {"alice", "bob"}
    assert max(job.num_gpus for job in jobs) <= NODES * GPUS_PER_NODE
    early = [job for job in jobs if job.submit_time < 600]
    assert sum(job.num_gpus for job in early) > NODES * GPUS_PER_NODE
    assert [job.submit_time for job in jobs] == sorted(job.submit_time for job in jobs)


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.apart
def test_two_users_compete_until_a_viewer_presses_q(tmp_path: Path) -> None:
    tape = tmp_path / "talk" / "tape.cast"
    with talk("--record", str(tape), "--time-scale", "120") as (audience, process):
        audience.until(*SHOWN)
        audience.types(b"q")
        while audience.looks(time.monotonic() + WAIT_TIMEOUT_S):
            pass
        assert process.wait(WAIT_TIMEOUT_S) == 0
        assert re.search(rb"[1-9]\d* preemptions; recorded in ", audience.received), audience.received[-500:]
    assert not [cluster for cluster in Cluster.all() if cluster.spec.name.endswith(f"-{process.pid}")]
    subprocess.run(
        [sys.executable, str(FILM), str(tape), str(tmp_path), "--frames", "1", "1000"], check=True, timeout=60
    )
    shown = rendered(tmp_path / "live.cast")
    for pattern in SHOWN:
        assert re.search(pattern, shown)
    assert (tmp_path / "live.cast").stat().st_size < tape.stat().st_size
    for number in (1, 2):
        assert "alice" in (tmp_path / f"live-{number}.svg").read_text()


def rendered(file: Path) -> str:
    module = film()
    header, events = module.read(file)
    assert (header["width"], header["height"]) == (120, 40)
    return "\n".join(
        "".join(cell.data for cell in line) for _, screen in module.screens(header, events, 0.5) for line in screen
    )
