"""Kill managers, aggregators and training programs at random on a real Slurm, and compare what the jobs computed.

    python -m tests.services.parameter_service.kills [--kills 200] [--jobs 10] [--seed 1] [--out kills.json]

Jobs of two users train in numpy through the service. A killed manager is replaced by its standby, a killed aggregator by a new
Slurm job on the same state folder, where the node is lost without that folder; a killed program resumes from its newest checkpoint,
as do the programs that have lost a master copy. Ended jobs are replaced by new ones until all kills are made. The exit code is 1
where the parameters of a job differ from those of a training in one process by more than 1e-6, more aggregators than the budget
were in the queue, or one was left at the end.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from tests.polling import pauses
from tests.services.parameter_service.numpy_training import alone
from tests.services.parameter_service.service_on_slurm import SERVICE, Service, until
from tiresias.errors import TiresiasError
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec

USERS, STEPS, GPU_S = ("alice", "bob"), 150, 0.03
BUDGET, END_S = 12, 600.0
KINDS = ("manager", "aggregator", "node", "program")
PROGRAM = "/opt/tiresias/tests/services/parameter_service/train_rank.py"
PATTERNS = {
    "aggregator": ".*parameter_service.aggregator ",
    "node": ".*parameter_service.aggregator ",
    "program": PROGRAM,
}
SCRIPT = """#!/bin/sh
export PYTHONPATH=$PYTHONPATH:/opt/tiresias OMP_NUM_THREADS=1
exec python3 -m tiresias.services.parameter_service.agent.register --job {name} --out /shared/{name}.json \\
  --manager /shared/service/published.json --servers 2 --workers 2 --restarts 1000 -- \\
  srun -n 2 -K1 python3 {program} {seed} {steps} {gpu_s} /shared/{name}.npz
"""


class Campaign:
    """The cluster, the service and its jobs.

    Args:
        cluster: A private cluster.
        jobs: Jobs that train at a time.
        seed: Of all choices.
    """

    def __init__(self, cluster: Cluster, jobs: int, seed: int) -> None:
        self._cluster, self._jobs, self._chance = cluster, jobs, random.Random(seed)
        self._service = Service(cluster, BUDGET, period_s=5.0)
        self._running: dict[str, str] = {}  # Slurm job by name
        self.seeds: dict[str, int] = {}
        self.kills: Counter[str] = Counter()
        self.most_aggregators = 0

    def start(self) -> None:
        self._service.lead()
        self._service.start()
        self.submit()

    def submit(self) -> None:
        """Submit jobs in place of those that have ended."""
        queued = self._cluster.run(["squeue", "-h", "-o", "%A"]).stdout.split()
        self._running = {name: job for name, job in self._running.items() if job in queued}
        while len(self._running) < self._jobs:
            number = len(self.seeds) + 1
            name = f"job{number}"
            self.seeds[name] = number
            script = self._cluster.shared / f"{name}.sh"
            script.write_text(SCRIPT.format(name=name, program=PROGRAM, seed=number, steps=STEPS, gpu_s=GPU_S))
            command = ["sbatch", "--parsable", "-n", "2", "-o", f"/shared/{name}.out", f"/shared/{name}.sh"]
            self._running[name] = self._cluster.run(command, user=USERS[number % 2]).stdout.strip()

    def kill(self) -> None:
        """Kill one process."""
        kind = self._chance.choice(KINDS)
        if kind == "manager":
            try:
                self._service.signal("KILL")
            except TiresiasError:
                return  # the standby has not taken over yet
            self._service.start()
        else:
            found = self._cluster.run(
                ["pgrep", "-fa", f"^[^ ]*python3 {PATTERNS[kind]}"], check=False
            ).stdout.splitlines()
            if not found:
                return
            pid, *words = self._chance.choice(found).split()
            removed = f"; rm -rf {Path(words[-1]).parent}" if kind == "node" else ""
            self._cluster.run(["sh", "-c", f"kill -KILL {pid}{removed}"], check=False)
        self.kills[kind] += 1

    def watch(self, seconds: float) -> None:
        """Count the aggregators in the queue for a while."""
        end, pause = time.monotonic() + seconds, pauses()
        while time.monotonic() < end:
            self.most_aggregators = max(self.most_aggregators, len(self._service.queued()))
            pause()

    def next_pause(self) -> float:
        return self._chance.uniform(0.2, 2.0)

    def finish(self) -> dict[str, str]:
        """Wait for all jobs and the end of the aggregators. Returns what is wrong."""
        wrong = dict[str, str]()
        try:
            until(self._ended, lambda: f"jobs do not end: {self._running}", END_S)
            until(lambda: not self._service.queued(), lambda: f"orphans: {self._service.queued()}")
        except AssertionError as error:
            wrong["end"] = str(error)
        for name, seed in self.seeds.items():
            if problem := _problem(self._cluster.shared / f"{name}.npz", seed):
                wrong[name] = problem
        return wrong

    def resumed(self) -> dict[str, int]:
        """Return how many runs resumed from a checkpoint, how many had none yet, and the steps that they made again."""
        files = [self._cluster.shared / f"{name}.runs" for name in self.seeds]
        lines = [line.split() for file in files if file.exists() for line in file.read_text().splitlines()]
        lost = [int(before) - int(step) for step, before in lines]
        begun_anew = sum(step == "0" for step, _ in lines)
        return {
            "resumed": len(lost) - begun_anew,
            "begun_anew": begun_anew,
            "steps_lost": sum(lost),
            "most_steps_lost": max(lost, default=0),
        }

    def stop(self) -> None:
        for manager in self._service.managers:
            manager.terminate()

    def _ended(self) -> bool:
        self.watch(1.0)
        queued = self._cluster.run(["squeue", "-h", "-o", "%A %u"]).stdout.splitlines()
        return not [line for line in queued if line.split()[1] != SERVICE]


def _problem(file: Path, seed: int) -> str:
    """Return by how much the parameters of a job differ, where it is too much."""
    if not file.exists():
        return "no parameters"
    trained, differences = np.load(file), list[float]()
    for name, expected in alone(seed, STEPS).items():
        differences.append(float(abs(trained[name] - expected).max() / abs(expected).max()))
    return f"differ by {max(differences):.1e}" if max(differences) > 1e-6 else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    cluster = Cluster.up(ClusterSpec(name=f"kills-{args.seed}", nodes=4))
    try:
        found = _run(Campaign(cluster, args.jobs, args.seed), args.kills)
    finally:
        cluster.down()
    text = json.dumps({"seed": args.seed, "steps": STEPS, "budget": BUDGET, **found}, indent=1)
    if args.out:
        args.out.write_text(text + "\n")
    print(text)
    return int(bool(found["wrong"]) or int(str(found["most_aggregators"])) > BUDGET)


def _run(campaign: Campaign, kills: int) -> dict[str, object]:
    began = time.monotonic()
    campaign.start()
    while campaign.kills.total() < kills:
        campaign.watch(campaign.next_pause())
        campaign.kill()
        campaign.submit()
    wrong = campaign.finish()
    campaign.stop()
    return {
        "kills": dict(campaign.kills), "jobs": len(campaign.seeds), "wrong": wrong, "most_aggregators": campaign.most_aggregators,
        **campaign.resumed(), "seconds": round(time.monotonic() - began),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
