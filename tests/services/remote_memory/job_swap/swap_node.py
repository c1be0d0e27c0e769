"""A node for tests: the program of prolog and epilog with a folder of its own, and jobs in a memory cgroup (v1)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.polling import pauses
from tiresias.protocol.remote_memory_use import folder_of
from tiresias.services.remote_memory.job_swap import loop_devices, node_ability, zram_devices
from tiresias.services.remote_memory.job_swap.swap_process import lock_holder
from tiresias.services.remote_memory.job_swap.use_publication import MODULE

MIB = 1 << 20
SWAPPING = str(Path(__file__).with_name("swapping.py"))
MEMORY = Path("/sys/fs/cgroup/memory")


def missing() -> str:
    """Return why this machine cannot run these tests; "" where it can."""
    found = ["not root"] if os.geteuid() else node_ability.missing()
    if not found and node_ability.cgroup_version() != "v1":
        found = ["the tests make memory cgroups of version 1"]
    if not found and not os.access("/dev/fuse", os.R_OK | os.W_OK):
        found = ["no right to /dev/fuse"]
    return "; ".join(found)


def until(condition: Callable[[], Any], what: str, deadline_s: float = 30.0) -> Any:
    """Return the condition's first true value."""
    deadline, pause = time.monotonic() + deadline_s, pauses()
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {deadline_s:g} s: {what}"
        pause()
    return found


class SwapNode:
    """A configuration, and cgroups below one of its own."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.run = folder / "run"
        self.cgroups = MEMORY / f"tiresias-test-{os.getpid()}-{folder.name}"
        self.cgroups.mkdir()
        self.file = folder / "swap.json"
        self.file.touch(mode=0o600)
        pattern = str(self.cgroups / "job_{job}")
        self._content = {"disk": str(folder), "run": str(self.run), "cgroups": [pattern], "swap_off_timeout_s": 2.0}
        self.configure(**options)
        self.jobs: set[str] = set()
        self.slurm: dict[str, str] = {}  # further variables of Slurm

    def configure(self, **options: Any) -> None:
        """Change the configuration."""
        self._content |= options
        self.file.write_text(json.dumps(self._content))

    def start(self, part: str, job: str, request: str = "") -> subprocess.Popen[str]:
        """Start prolog or epilog as Slurm does."""
        self.jobs.add(job)
        environment = {**os.environ, **self.slurm, "SLURM_JOB_ID": job, "SLURM_JOB_EXTRA": request}
        command = [sys.executable, "-m", MODULE, part, str(self.file)]
        return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)

    def call(self, part: str, job: str, request: str = "", code: int = 0) -> str:
        """Run prolog or epilog and return what it logs."""
        process = self.start(part, job, request)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == code, errors
        return errors

    def cgroup(self, job: str, limit_mib: int) -> Path:
        """Create the cgroup of a job, as Slurm does with ConstrainSwapSpace: no swap."""
        folder = self.cgroups / f"job_{job}"
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(limit_mib * MIB))
        (folder / "memory.memsw.limit_in_bytes").write_text(str(limit_mib * MIB))
        return folder

    def swapping(self, cgroup: Path, mib: int, writes: int) -> subprocess.Popen[str]:
        """Start a process of a job."""
        words = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(cgroup / "cgroup.procs")]
        command = [*words, sys.executable, SWAPPING, str(mib), str(writes)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def server(self, job: str) -> int:
        """Return the pid of the serving process, 0 without one."""
        return lock_holder(self.run / f"{job}.lock")

    def left(self, job: str) -> list[str]:
        """Return what a job's swap has left on this node."""
        found = [f"process {self.server(job)}"] if self.server(job) else []
        found += [each.path for each in loop_devices.own_devices() if each.job == job]
        found += [each.path for each in zram_devices.own_devices() if each.job == job]
        found += [line for line in Path("/proc/mounts").read_text().splitlines() if str(self.run) in line]
        found += [f"{each.parent.name}/{each.name}" for each in self.files(job).glob("*")]
        return found + [each.name for each in self.run.glob(f"{job}.*")]

    def files(self, job: str) -> Path:
        """Return the folder with the files of a job's owner."""
        return folder_of(self.run, job)

    def close(self) -> None:
        """Remove what a failed test has left."""
        for job in self.jobs:
            self.call("epilog", job)
        for folder in (*self.cgroups.iterdir(), self.cgroups):
            with suppress(OSError):
                folder.rmdir()
