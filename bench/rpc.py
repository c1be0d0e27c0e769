"""How many calls the controller makes of slurmctld, counted by slurmctld itself (sdiag). Prints JSON.

    python bench/rpc.py [--running 64] [--jobs 1000] [--seconds 120] [--backend pyslurm|commands]

steady   calls a minute while so many jobs run, no job waits and nothing happens; the period is the default, 30 s
storm    calls from the submission of so many jobs at once until the controller has held them all; then a minute of rest

The cluster is private, its jobs sleep. Calls are those of the controller's user; slurmctld counts its own and the nodes' apart.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec
from tiresias.slurm_plugin.backends import sdiag
from tiresias.slurm_plugin.sockets.control_client import ask

SUBMIT = """
import sys, pyslurm
pyslurm.slurm_init()
count, gpus, command, array = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
for number in range(count):
    pyslurm.JobSubmitDescription(
        name=f"job{number}", script=f"#!/bin/sh\\n{command}\\n", working_directory="/tmp", standard_in="/dev/null",
        standard_output="/dev/null", environment={"PATH": "/usr/bin:/bin"}, gres_per_node=f"gpu:{gpus}", memory_per_cpu=100,
        **({"array": array} if array else {}),
    ).submit()
"""
CONFIG = """
mode = "exact"
partitions = ["gpu"]
backend = "{backend}"
[paths]
control = "/shared/tiresias/control"
checkpoints = "/shared/tiresias/checkpoints"
"""
WAIT_TIMEOUT_S = 600.0


class Site:
    """A private cluster with its controller."""

    def __init__(self, spec: ClusterSpec, backend: str) -> None:
        self.cluster = Cluster.up(spec)
        self._uid = self.cluster.rootfs.uid(spec.daemon_user)
        for folder in ("tiresias", "tiresias/control", "tiresias/checkpoints"):
            (self.cluster.shared / folder).mkdir()
            (self.cluster.shared / folder).chmod(0o1777)
        (self.cluster.shared / "tiresias.toml").write_text(CONFIG.format(backend=backend))

    @contextlib.contextmanager
    def controller(self) -> Iterator[subprocess.Popen[Any]]:
        with (self.cluster.log / "controller.log").open("ab") as log:
            process = self.cluster.popen(
                ["tiresias", "controller", "--config", "/shared/tiresias.toml"],
                user=self.cluster.spec.daemon_user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            self.cluster.run(["pkill", "-KILL", "-f", "tiresias controller"], check=False)
            process.wait()

    def status(self) -> dict[str, Any]:
        """Return the status, {} while no controller answers."""
        socket = Path(f"/proc/{self.cluster.init.pid}/root/run/tiresias/control.sock")
        with contextlib.suppress(TiresiasError):
            return ask(socket, {"op": "status"}, timeout=60.0)
        return {}

    def calls(self) -> int:
        """Of the controller's user so far."""
        return sdiag.load(self._sdiag(), self._uid).calls

    def types(self) -> dict[str, int]:
        return sdiag.by_type(self._sdiag())

    def _sdiag(self) -> str:
        return self.cluster.run(["sdiag"]).stdout

    def submit(
        self, count: int, gpus: int, command: str = "sleep 100000", array: str = "", user: str = "alice"
    ) -> float:
        """Through pyslurm: quicker than sbatch by the start of a process each. Seconds that it took."""
        began = time.monotonic()
        self.cluster.run(
            ["python3", "-c", SUBMIT, str(count), str(gpus), command, array], user=user, timeout=WAIT_TIMEOUT_S
        )
        return time.monotonic() - began

    def count(self, state: str) -> int:
        """Jobs, each task of an array counted."""
        words = ["squeue", "--noheader", "--array", f"--states={state}", "--format=%i"]
        return len(self.cluster.run(words, timeout=WAIT_TIMEOUT_S).stdout.split())

    def until(self, ready: Callable[[], bool], words: str, seconds: float = WAIT_TIMEOUT_S) -> float:
        """Seconds that it took."""
        began = time.monotonic()
        while not ready():
            if time.monotonic() - began > seconds:
                raise TiresiasError(f"{words} after {seconds:g} s; {self.cluster.last_error()}")
            time.sleep(0.5)
        return time.monotonic() - began


def measure(running: int, jobs: int, seconds: float, backend: str) -> dict[str, Any]:
    site = Site(ClusterSpec(name="bench-rpc", nodes=running // 8, gpus_per_node=8), backend)
    try:
        with site.controller():
            site.until(lambda: bool(site.status()), "the controller does not answer")
            site.submit(running, 1)
            site.until(lambda: site.count("RUNNING") == running, "not all run")
            return {
                "running": running,
                "backend": site.status()["backend"],
                "steady": steady(site, seconds),
                "storm": storm(site, jobs),
                "after": steady(site, 60.0),
                "controller": site.status()["rpc"],
            }
    finally:
        site.cluster.down()


def steady(site: Site, seconds: float) -> dict[str, Any]:
    """What is going on has some time to end first."""
    time.sleep(15.0)
    before, types, began = site.calls(), site.types(), time.monotonic()
    time.sleep(seconds)
    made, minutes = site.calls() - before, (time.monotonic() - began) / 60
    found = {name: count - types.get(name, 0) for name, count in site.types().items()}
    return {
        "seconds": round(60 * minutes),
        "calls_per_minute": round(made / minutes, 2),
        "everybodys_by_type": {name: count for name, count in sorted(found.items()) if count},
    }


def storm(site: Site, jobs: int) -> dict[str, Any]:
    before, began = site.calls(), time.monotonic()
    submitting = site.submit(jobs, 1)
    site.until(lambda: held(site) >= jobs, "not all are held")
    seconds, made = time.monotonic() - began, site.calls() - before
    return {
        "jobs": jobs,
        "submitted_in": round(submitting, 2),
        "held_after": round(seconds, 2),
        "calls": made,
        "calls_per_job": round(made / jobs, 3),
        "calls_per_minute": round(60 * made / seconds),
    }


def held(site: Site) -> int:
    words = ["squeue", "--noheader", "--array", "--states=PENDING", "--format=%r"]
    return site.cluster.run(words, timeout=WAIT_TIMEOUT_S).stdout.split().count("JobHeldAdmin")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--running", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--backend", choices=["auto", "pyslurm", "commands"], default="auto")
    args = parser.parse_args()
    print(json.dumps(measure(args.running, args.jobs, args.seconds, args.backend), indent=2))


if __name__ == "__main__":
    main()
