"""Runs a program as a job's runs would follow each other: told to stop at random moments, started again until it ends by itself."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tiresias.checkpoint import EXIT_REQUEUE, control

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
PATIENCE = 240.0


class Job:
    """A job of so many ranks in a folder of its own; `command` is run by each."""

    def __init__(self, folder: Path, command: Sequence[str], ranks: int = 1) -> None:
        self.folder, self._command, self._ranks = folder, list(command), ranks
        self.control = folder / "control"
        self._restart = -1
        self._log = folder / "log"
        (self.control / control.RANKS).mkdir(parents=True)

    def start(self, ranks: int | None = None) -> None:
        self._restart += 1
        self._ranks = ranks or self._ranks
        for stale in (self.control / control.RANKS).iterdir():
            stale.unlink()
        (self.control / control.PROGRAM).unlink(missing_ok=True)
        port = _free_port()
        with self._log.open("ab") as log:
            self.processes = [
                subprocess.Popen(self._command, cwd=self.folder, env=self._env(rank, port), stdout=log, stderr=log)
                for rank in range(self._ranks)
            ]

    def _env(self, rank: int, port: int) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "TIRESIAS_"))}
        env |= {
            "TIRESIAS_CONTROL": str(self.control), "TIRESIAS_CHECKPOINT_DIR": str(self.folder / "checkpoints"),
            "TIRESIAS_RESTART": str(self._restart), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore",
        }  # fmt: skip
        if self._ranks > 1:
            env |= {
                "RANK": str(rank), "WORLD_SIZE": str(self._ranks), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port), "SLURM_JOB_ID": "control", "SLURM_STEP_ID": str(self._restart),
                "SLURM_STEP_NUM_TASKS": str(self._ranks), "SLURM_PROCID": str(rank),
            }  # fmt: skip
        return env

    def until_ready(self) -> None:
        """Until it has come to its first step, or has ended."""
        deadline = time.monotonic() + PATIENCE
        while not control.read(self.control / control.PROGRAM, os.getuid()).get("ready"):
            if any(process.poll() is not None for process in self.processes):
                return
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def tell(self, how: str) -> None:
        """how: "signal" to all, "one" rank alone gets SIGTERM, "file": the stop file."""
        if how == "file":
            control.stop_file(self.control, self._restart).touch()
        for process in self.processes if how == "signal" else self.processes[-1:] if how == "one" else ():
            process.send_signal(signal.SIGUSR2 if how == "signal" else signal.SIGTERM)

    def end(self) -> int:
        """The exit code, the same of all ranks: 99 (saved) or 0."""
        try:
            codes = {process.wait(PATIENCE) for process in self.processes}
        finally:
            self.kill()
        assert codes in ({0}, {EXIT_REQUEUE}), f"{codes}\n{self.log()}"
        return codes.pop()

    def kill(self) -> None:
        for process in self.processes:
            process.kill()

    def uninterrupted(self) -> float:
        """Run it as a whole; the seconds of its training."""
        self.start()
        self.until_ready()
        began = time.monotonic()
        assert self.end() == 0, self.log()
        return time.monotonic() - began

    def stopped(self, times: int, seconds: float, seed: int) -> int:
        """Stop it up to that often at random moments of a training of so many seconds; how often it was."""
        moments = random.Random(seed)
        for done in range(times):
            self.start()
            self.until_ready()
            time.sleep(moments.uniform(0, seconds / (times + 1)))
            self.tell(moments.choice(["signal", "one", "file"]))
            if self.end() == 0:
                return done
        self.start()
        assert self.end() == 0
        return times

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-6000:] if self._log.exists() else ""


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Pair:
    """Two jobs of the same program: one runs through, the other is stopped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, *command: str, ranks: int = 1) -> tuple[Job, Job]:
        made = []
        for name in ("whole", "stopped"):
            (self._folder / name).mkdir()
            made.append(Job(self._folder / name, command, ranks))
        return made[0], made[1]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


@pytest.fixture
def example() -> list[str]:
    """The beginning of an example's command line."""
    return [sys.executable, str(EXAMPLES)]
