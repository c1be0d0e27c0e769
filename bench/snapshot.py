"""What a snapshot costs through both back ends, beside a bare pyslurm Jobs.load. Prints JSON; times in seconds.

    python bench/snapshot.py [--jobs 10000] [--rounds 7]

Fills a private cluster with held GPU jobs (--gres, --gpus-per-task and CPU-only ones). `first` is the first snapshot of a new
back end, `steady` the median of the next ones while nothing changes, `churn` the median while 20 jobs change before each.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec
from tiresias.slurm_plugin.backends.commands import CommandsBackend
from tiresias.slurm_plugin.backends.interface import Backend
from tiresias.slurm_plugin.backends.pyslurm import PyslurmBackend

FILL = """
import sys, pyslurm
pyslurm.slurm_init()
kinds = [
    {"gres_per_node": "gpu:2"}, {"gres_per_node": "gpu:4", "nodes": 2, "ntasks": 2}, {"gpus_per_task": "gpu:1", "ntasks": 3}, {}
]
for number in range(int(sys.argv[1])):
    pyslurm.JobSubmitDescription(
        name=f"job{number}", script="#!/bin/sh\\nsleep 1000\\n", working_directory="/tmp", standard_in="/dev/null",
        standard_output="/dev/null", environment={"A": "1"}, priority=0, **kinds[number % len(kinds)]
    ).submit()
"""
BARE = """
import sys, time, pyslurm
pyslurm.slurm_init()
for _ in range(int(sys.argv[1])):
    began = time.perf_counter()
    pyslurm.Jobs.load()
    print(time.perf_counter() - began)
"""
CHURN = 20
DEADLINE = 120.0


def measure(jobs: int, rounds: int) -> dict[str, object]:
    backends: dict[str, Callable[[], Backend]] = {
        "pyslurm": lambda: PyslurmBackend(DEADLINE),
        "commands": lambda: CommandsBackend(DEADLINE),
    }
    bare = _python(BARE, str(rounds)).split()
    found: dict[str, object] = {"jobs": jobs, "bare_jobs_load": statistics.median(map(float, bare))}
    for name, opened in backends.items():
        backend = opened()
        first = _timed(backend)
        steady = statistics.median(_timed(backend) for _ in range(rounds))
        churn = statistics.median(_churned(backend) for _ in range(rounds))
        backend.close()
        found[name] = {"first": first, "steady": steady, "churn": churn}
    return found


def _churned(backend: Backend) -> float:
    some = ",".join(job.id for job in backend.snapshot().jobs[:CHURN])
    subprocess.run(["scontrol", "update", f"jobid={some}", f"timelimit={int(time.time()) % 9000 + 60}"], check=True)
    return _timed(backend)


def _timed(backend: Backend) -> float:
    began = time.perf_counter()
    backend.snapshot()
    return time.perf_counter() - began


def _python(script: str, *arguments: str) -> str:
    return subprocess.run([sys.executable, "-c", script, *arguments], check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--inside", action="store_true", help="measure the Slurm of this machine, as it is")
    args = parser.parse_args()
    if args.inside:
        print(json.dumps(measure(args.jobs, args.rounds), indent=2))
        return
    cluster = Cluster.up(ClusterSpec(name="bench-snapshot", hooks=False))
    try:
        cluster.run(["python3", "-c", FILL, str(args.jobs)], timeout=600)
        command = [
            "python3",
            "/opt/tiresias/bench/snapshot.py",
            "--inside",
            f"--jobs={args.jobs}",
            f"--rounds={args.rounds}",
        ]
        print(cluster.run(command, timeout=1200).stdout, end="")
    finally:
        cluster.down()


if __name__ == "__main__":
    main()
