"""Runs a program as a job's runs follow each other: stopped at random moments, started again until it ends by itself."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.checkpoint.adapters.nursery import Child, Nursery
from tests.checkpoint.adapters.shared_gpu import variables
from tiresias.checkpoint import EXIT_REQUEUE
from tiresias.protocol import control

PROCESS_TIMEOUT_S = 240.0
MOMENT = 0.6
ALWAYS = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "TORCH_CPP_LOG_LEVEL": "ERROR"}


class Job:
    """A job of so many ranks in a folder of its own; `command` is run by each: a program in Python, where there is a nursery."""

    def __init__(self, folder: Path, command: Sequence[str], ranks: int, nursery: Nursery | None) -> None:
        self.folder, self._command, self._ranks, self._nursery = folder, list(command), ranks, nursery
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
        self.processes = [self._start(self._env(rank, port)) for rank in range(self._ranks)]

    def _start(self, env: dict[str, str]) -> subprocess.Popen[bytes] | Child:
        if self._nursery:
            return self._nursery.start(self._command[1:], self.folder, env, self._log)
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command, cwd=self.folder, env=env, stdout=log, stderr=log, start_new_session=True
            )

    def _env(self, rank: int, port: int) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "TIRESIAS_"))}
        env |= {
            **ALWAYS,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "TIRESIAS_CONTROL": str(self.control),
            "TIRESIAS_RESTART": str(self._restart),
            "TIRESIAS_CHECKPOINT_DIR": str(self.folder / "checkpoints"),
        }
        if self._ranks > 1:
            env |= {  # as torchrun has it, and the variables of an srun step that identify the launch
                "RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0", "WORLD_SIZE": str(self._ranks),
                "LOCAL_WORLD_SIZE": str(self._ranks), "TORCHELASTIC_RUN_ID": "x", "SLURM_JOB_ID": "control",
                "SLURM_STEP_ID": str(self._restart), "SLURM_STEP_NUM_TASKS": str(self._ranks),
                "SLURM_PROCID": str(rank),
            }  # fmt: skip
            env |= variables(str(rank))
        return env

    def until_ready(self) -> None:
        """Until it has come to its first step, or has ended."""
        deadline = time.monotonic() + PROCESS_TIMEOUT_S
        while not control.read(self.control / control.PROGRAM, os.getuid()).get("ready"):
            if any(process.poll() is not None for process in self.processes):
                return
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def request(self, how: str) -> None:
        """how: "signal" to all, "one" rank alone gets SIGTERM, "file": the stop file."""
        if how == "file":
            control.stop_file(self.control, self._restart).touch()
        for process in self.processes if how == "signal" else self.processes[-1:] if how == "one" else ():
            process.send_signal(signal.SIGUSR2 if how == "signal" else signal.SIGTERM)

    def end(self) -> int:
        """The exit code, the same of all ranks: 99 (saved) or 0."""
        try:
            codes = {process.wait(PROCESS_TIMEOUT_S) for process in self.processes}
        finally:
            self.kill()
        assert codes in ({0}, {EXIT_REQUEUE}), f"{codes}\n{self.log()}"
        return codes.pop()

    def kill(self) -> None:
        """With all that they started."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def whole(self) -> None:
        """Run it from its beginning to its end."""
        self.start()
        assert self.end() == 0, self.log()

    def stopped(self, times: int, seed: int) -> None:
        """Stop it that often at random moments of its training, at most MOMENT seconds after its first step; then let it end."""
        moments = random.Random(seed)
        for _ in range(times):
            self.start()
            self.until_ready()
            time.sleep(moments.uniform(0, MOMENT))
            self.request(moments.choice(["signal", "one", "file"]))
            assert self.end() == EXIT_REQUEUE, f"it came to its end before it was stopped\n{self.log()}"
        self.whole()

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-6000:] if self._log.exists() else ""


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


Pair = Callable[..., tuple[Job, Job]]


@pytest.fixture(scope="session")
def nursery_of() -> Iterator[Callable[..., Nursery]]:
    """One for each set of modules, at its first use."""
    nurseries: dict[tuple[str, ...], Nursery] = {}

    def get(*modules: str) -> Nursery:
        if modules not in nurseries:
            nurseries[modules] = Nursery(modules, os.environ | ALWAYS)
        return nurseries[modules]

    yield get
    for nursery in nurseries.values():
        nursery.close()


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """pair(command, ranks=1, slowly=command, nursery=None): a job to run as a whole, each process a fresh one, and one to be
    stopped, which may have another command and be born in a nursery."""

    def make(
        command: Sequence[str], ranks: int = 1, slowly: Sequence[str] = (), nursery: Nursery | None = None
    ) -> tuple[Job, Job]:
        made = []
        for name, words, from_where in (("whole", command, None), ("stopped", slowly or command, nursery)):
            (tmp_path / name).mkdir()
            made.append(Job(tmp_path / name, words, ranks, from_where))
        return made[0], made[1]

    return make
