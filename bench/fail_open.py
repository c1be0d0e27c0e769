"""From the death of all controllers to the first job that Slurm starts alone, in seconds. Prints JSON.

    python bench/fail_open.py [--period 30] [--timer 15] [--after SECONDS] [--waiting 8] [--rounds 3] [--hang]

A private cluster with a leader, a standby and the dead-man, started again `--timer` seconds after it ended, as
etc/tiresias-deadman.timer does. All GPUs are taken and jobs wait, held by the controller. Both controllers get SIGKILL in the same
moment (--hang: SIGSTOP), then some running jobs are cancelled. No systemd helps. Per round:

start    until the first of the waiting jobs runs
release  until the dead-man has lifted all holds
late     from its submission, a second after the death, until a job runs that the dead controller has never seen
         (it was given a begin time by job_submit.lua, which counts on the controller for as long as its lease lasts)
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec

CONFIG = """
mode = "exact"
partitions = ["gpu"]
period = {period}
[paths]
state = "/var/lib/tiresias/bench"
run = "/run/tiresias{number}"
control = "/shared/tiresias/control"
checkpoints = "/shared/tiresias/checkpoints"
"""
GPUS = 16
FREED = 4
WAIT_TIMEOUT_S = 300.0


class Site:
    def __init__(self, cluster: Cluster, args: argparse.Namespace) -> None:
        self.cluster, self._args, self.user = cluster, args, cluster.spec.daemon_user
        cluster.run(["install", "-d", "-m", "1777", "/shared/tiresias", "/shared/tiresias/control"])
        cluster.run(["install", "-d", "-o", self.user, "/run/tiresias2"])
        self._after = [] if args.after is None else [f"--after={args.after:g}"]
        for number in ("", "2"):
            (cluster.shared / f"controller{number}.toml").write_text(
                CONFIG.format(period=float(args.period), number=number)
            )
        self._log = (cluster.log / "bench.log").open("ab")

    def start(self, *words: str) -> subprocess.Popen[Any]:
        return self.cluster.popen(
            list(words), user=self.user, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )

    def controllers(self) -> list[subprocess.Popen[Any]]:
        """Start the leader and the standby."""
        found = []
        for number, word in (("", "leading"), ("2", "is a standby:")):
            seen = self.log().count(word)
            found.append(self.start("tiresias", "controller", "--config", f"/shared/controller{number}.toml"))
            until(lambda seen=seen, word=word: self.log().count(word) > seen, f"no controller logs {word}")  # type: ignore[misc]
        return found

    def deadman(self) -> subprocess.Popen[Any]:
        once = " ".join(["tiresias deadman --config /shared/controller.toml", *self._after])
        return self.start("sh", "-c", f"while :; do {once}; sleep {self._args.timer:g}; done")

    def log(self) -> str:
        return (self.cluster.log / "bench.log").read_text(errors="replace")

    def submit(self, count: int) -> list[str]:
        one = "sbatch --parsable --gpus=1 --ntasks=1 --output=/dev/null --wrap 'sleep 3600'"
        script = f"for number in $(seq {count}); do {one} || exit; done"
        return self.cluster.run(["sh", "-c", script], user="alice", cwd="/tmp", timeout=600).stdout.split()

    def fill(self, count: int) -> tuple[list[str], list[str]]:
        """Jobs on all GPUs, and so many that the controller holds, their begin time of job_submit.lua being over."""
        running = self.submit(GPUS)
        until(lambda: list(self.states().values()).count("RUNNING") == GPUS, "the GPUs do not fill")
        waiting = self.submit(count)
        self.cluster.run(["scontrol", "update", f"JobId={','.join(waiting)}", "StartTime=now"], timeout=600)
        until(lambda: self.all_held(waiting), "jobs are not held")
        return running, waiting

    def states(self, job_format: str = "%T") -> dict[str, str]:
        lines = self.cluster.run(["squeue", "-h", "-o", f"%i {job_format}"]).stdout.splitlines()
        return dict(line.split(maxsplit=1) for line in lines)

    def all_held(self, jobs: Sequence[str]) -> bool:
        reasons = self.states("%r")
        return all(reasons.get(job) == "JobHeldAdmin" for job in jobs)

    def started(self, jobs: Sequence[str]) -> str | None:
        states = self.states()
        return next((job for job in jobs if states.get(job) == "RUNNING"), None)

    def clean(self) -> None:
        self.cluster.run(["scancel", "--state=PENDING", "--partition=gpu"], check=False)
        until(lambda: self.cluster.run(["scancel", "-p", "gpu"], check=False) and not self.states(), "jobs stay")


def until(ready: Callable[[], Any], words: str) -> Any:
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while not (found := ready()):
        if time.monotonic() > deadline:
            raise SystemExit(words)
        time.sleep(0.1)
    return found


def signal_all(processes: Sequence[subprocess.Popen[Any]], number: signal.Signals) -> None:
    """To the programs under nsenter, and what they started."""
    for process in processes:
        for child in children(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)


def children(pid: int) -> list[int]:
    try:
        found = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [each for one in found for each in (one, *children(one))]


def one_round(site: Site, args: argparse.Namespace) -> dict[str, float]:
    controllers, deadman = site.controllers(), site.deadman()
    try:
        running, waiting = site.fill(args.waiting)
        died, released = time.monotonic(), site.log().count("Slurm schedules alone")
        signal_all(controllers, signal.SIGSTOP if args.hang else signal.SIGKILL)
        site.cluster.run(["scancel", *running[:FREED]], user="alice")
        time.sleep(1)
        [late], submitted = site.submit(1), time.monotonic()
        until(lambda: site.started(waiting), "Slurm starts nothing")
        start = time.monotonic() - died
        until(lambda: site.log().count("Slurm schedules alone") > released, "not all is released")
        release = time.monotonic() - died
        site.cluster.run(["scancel", *running[FREED:], *waiting], user="alice")
        until(lambda: site.started([late]), "the late job does not start")
        return {
            name: round(value, 2)
            for name, value in {"start": start, "release": release, "late": time.monotonic() - submitted}.items()
        }
    finally:
        signal_all([deadman, *controllers], signal.SIGKILL)
        for process in (deadman, *controllers):
            process.kill()  # nsenter stops with what it has entered
        site.clean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--period", type=float, default=30.0)
    parser.add_argument("--timer", type=float, default=15.0)
    parser.add_argument("--after", type=float)
    parser.add_argument("--waiting", type=int, default=8, help="jobs that are held")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hang", action="store_true", help="SIGSTOP in place of SIGKILL")
    args = parser.parse_args()
    cluster = Cluster.up(ClusterSpec(name="bench-fail-open", nodes=4))
    try:
        site = Site(cluster, args)
        rounds = [one_round(site, args) for _ in range(args.rounds)]
        options = {name: getattr(args, name) for name in ("period", "timer", "after", "waiting")}
        where = {"slurm": cluster.slurm_version, "machine": platform.machine()}
        print(json.dumps({"signal": "STOP" if args.hang else "KILL", **options, "rounds": rounds, **where}, indent=1))
    finally:
        cluster.down()


if __name__ == "__main__":
    main()
