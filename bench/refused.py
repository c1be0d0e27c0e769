"""How long a startable job waits for free GPUs among hundreds of jobs that Slurm refuses to start. Prints JSON.

    python bench/refused.py [--limit qos|license|memory] [--refused 250] [--honest 40] [--period 30] [--backend auto]

A private cluster of 2 nodes x 4 GPUs with slurmdbd, the controller at its defaults. One user submits `--refused` jobs of one GPU,
of which Slurm lets one run at a time (qos: MaxTRESPerUser=gres/gpu=1; license: one licence) or none (memory: the
partition's MaxMemPerNode, a rule that is not known to the admit stage in advance). Then another user
submits one job of 4 GPUs after the other. 4 GPUs are free all the time.

wait     seconds from the submission of an honest job to the first line of its script: minimum, median, 95th percentile, maximum
tries    starts of refused jobs; not_started: those that Slurm did not carry out
calls    RPCs to slurmctld a minute, on average
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec
from tiresias.slurm_plugin.sockets.control_client import ask

CONFIG = """
mode = "exact"
partitions = ["gpu"]
period = {period}
backend = "{backend}"
[paths]
state = "/var/lib/tiresias/bench"
run = "/run/tiresias"
control = "/shared/tiresias/control"
checkpoints = "/shared/tiresias/checkpoints"
"""
DEADLINE_S = 300.0
OPTIONS = {"qos": "--qos=onegpu", "license": "--licenses=cad:1", "memory": "--mem=2000"}


class Site:
    def __init__(self, cluster: Cluster, args: argparse.Namespace) -> None:
        self.cluster, self._limit = cluster, args.limit
        for folder in ("control", "checkpoints", "out"):
            cluster.run(["install", "-d", "-m", "1777", "/shared/tiresias", f"/shared/tiresias/{folder}"])
        (cluster.shared / "tiresias.toml").write_text(CONFIG.format(period=float(args.period), backend=args.backend))
        cluster.run(["sacctmgr", "-i", "add", "qos", "onegpu", "set", "MaxTRESPerUser=gres/gpu=1"])
        cluster.run(["sacctmgr", "-i", "modify", "user", "bob", "set", "qos+=onegpu"])

    def controller(self) -> subprocess.Popen[Any]:
        log = (self.cluster.log / "bench.log").open("ab")
        return self.cluster.popen(
            ["tiresias", "controller", "--config", "/shared/tiresias.toml"],
            user=self.cluster.spec.daemon_user,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )

    def status(self) -> dict[str, Any]:
        try:
            socket = Path(f"/proc/{self.cluster.init.pid}/root/run/tiresias/control.sock")
            return dict(ask(socket, {"op": "status"}, timeout=10.0))
        except TiresiasError:
            return {}

    def refuse(self, count: int) -> None:
        one = f"sbatch --parsable --gres=gpu:1 {OPTIONS[self._limit]} --output=/dev/null --wrap 'sleep 3600'"
        if self._limit == "memory":
            self.cluster.run(["scontrol", "update", "PartitionName=gpu", "MaxMemPerNode=1000"])
        self.cluster.run(
            ["sh", "-c", f"for n in $(seq {count}); do {one} || exit; done"], user="bob", cwd="/tmp", timeout=600
        )

    def honest(self, number: int) -> float:
        """Seconds until it runs."""
        out = self.cluster.shared / "tiresias/out" / str(number)
        words = ["sbatch", "--parsable", "--gres=gpu:4", "--mem=500", "--output=/dev/null"]
        began = time.time()
        self.cluster.run([*words, "--wrap", f"date +%s.%N > /shared/tiresias/out/{number}"], user="alice", cwd="/tmp")
        self.report_arrival()
        until(lambda: out.exists() and out.read_text().endswith("\n"), f"honest job {number} does not run")
        return float(out.read_text()) - began

    def report_arrival(self) -> None:
        """As job_submit.lua does where the daemon has slurmctld's group (etc/tiresias-controller.service)."""
        words = ["sh", "-c", "printf . >> /run/tiresias/arrivals"]
        self.cluster.run(words, user=self.cluster.spec.daemon_user)


def until(ready: Callable[[], Any], words: str) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while not (found := ready()):
        if time.monotonic() > deadline:
            raise SystemExit(words)
        time.sleep(0.05)
    return found


def measure(site: Site, args: argparse.Namespace) -> dict[str, Any]:
    controller = site.controller()
    until(lambda: site.status() or controller.poll() is not None, "the controller does not answer")
    site.refuse(args.refused)
    began, before = time.monotonic(), site.status()["rpc"]["spent"]
    waits = sorted(site.honest(number) for number in range(args.honest))
    status = site.status()
    minutes = (time.monotonic() - began) / 60
    controller.terminate()
    return {
        "wait_s": {
            "min": round(waits[0], 3),
            "median": round(statistics.median(waits), 3),
            "p95": round(waits[max(len(waits) * 95 // 100 - 1, 0)], 3),
            "max": round(waits[-1], 3),
        },
        "tries": status["actions"].get("start", 0) - args.honest,
        "not_started": status["actions"].get("not started", 0),
        "calls_per_minute": round((status["rpc"]["spent"] - before) / minutes, 1),
        "minutes": round(minutes, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", choices=sorted(OPTIONS), default="qos")
    parser.add_argument("--refused", type=int, default=250)
    parser.add_argument("--honest", type=int, default=40)
    parser.add_argument("--period", type=float, default=30.0)
    parser.add_argument("--backend", default="auto")
    args = parser.parse_args()
    spec = ClusterSpec(name="bench-refused", nodes=2, accounting=True, settings={"KillWait": "5", "Licenses": "cad:1"})
    cluster = Cluster.up(spec, report=lambda line: None)
    try:
        found = measure(Site(cluster, args), args)
    finally:
        cluster.down()
    print(json.dumps({"machine": platform.processor() or platform.machine(), **vars(args), **found}, indent=2))


if __name__ == "__main__":
    main()
