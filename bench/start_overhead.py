"""From the submission of a job, the end of another one or a preemption to the first line of a program, by stages. Prints JSON.

    python bench/start_overhead.py [--rounds 10] [--before REVISION] [--epilog SECONDS,...]

Private clusters of one node with 4 GPUs, one for each revision and each length of the nodes' Epilog in slurm.conf (none: no
Epilog). In each round each of these ways is taken on each cluster in turn:

sbatch      plain sbatch, in a partition that no controller manages
controlled  plain sbatch, in the managed partition: the controller, without the supervisor
tsbatch     tsbatch, in the managed partition: the controller and the supervisor

and in each way a job of all GPUs is started on the idle cluster (idle), another one that waits for its end (successor), and, with
tsbatch, a third one for which a training is preempted (preemption). Seconds of wall time, medians and 95th percentiles:

decided     from the submission, the first job's end, or (preemption) the submission, to the controller's decision
freed       preemption: from the decision to preempt to free GPUs: signal, save, requeue, clean-up
released    from the decision, or free GPUs, to the release of the job, as slurmctld logs it; 0 where it came before the GPUs
launched    from there to the launch of the batch script, as slurmd logs it: slurmctld's scheduling pass
shell       from there to the first line of the batch script
ready       from there until the supervisor runs the user's script
program     from there to the first line of the user's script
total       from the beginning to that line

Slurm's part is launched + shell, the rest is Tiresias's. Without controller and supervisor launched contains decided and
released, and there are no ready and program. slurmctld starts waiting jobs in passes: one at each full second, one a second by
sched/backfill, and, where the nodes have an Epilog, one when all nodes of a job have completed. Each case begins at a random
moment of a second.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import time
from calendar import timegm
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from simulation_speed import revision

from tiresias.sandbox.cluster import Cluster
from tiresias.slurm_plugin.state.journal_history import History

ROOT = Path(__file__).resolve().parents[1]
WAYS = {"sbatch": ("sbatch", "other"), "controlled": ("sbatch", "gpu"), "tsbatch": ("tsbatch", "gpu")}
ROOTS = {
    "TIRESIAS_CONTROL_ROOT": "/shared/tiresias/control",
    "TIRESIAS_CHECKPOINT_ROOT": "/shared/tiresias/checkpoints",
}
CONFIG = """\
mode = "exact"
partitions = ["gpu"]
period = 1.0
poll = 0.05
[paths]
state = "/var/lib/tiresias"
control = "/shared/tiresias/control"
checkpoints = "/shared/tiresias/checkpoints"
[policy]
name = "las"
thresholds = [4.0]
min_run = 0.0
min_run_cost_factor = 0.0
"""
# bash reads it before the first line of each script: the batch script with the supervisor's lines, then the user's script
PROBE = """\
echo "$EPOCHREALTIME" >> /shared/bench/$SLURM_JOB_ID.lines
[ -z "$TIRESIAS_CONTROL" ] || stat -c %.6Y "$TIRESIAS_CONTROL/supervisor.json" > /shared/bench/$SLURM_JOB_ID.ready
"""
SHORT = "#!/bin/bash\nsleep ${1:-0}\necho $EPOCHREALTIME > /shared/bench/$SLURM_JOB_ID.end\n"
TRAINING = (
    "#!/bin/bash\nexec python3 -m tiresias.sandbox.trainer --job $SLURM_JOB_ID --model resnet50 --gpus 4 --seconds 600 "
    "--checkpoint-every 600 --results /shared/bench\n"
)
COMMON = ["--gpus-per-task=1", "--cpus-per-task=1", "--output=/dev/null", "--parsable"]
LAUNCHED = r"^\[(\S+)\] Launching batch (?:JobId=|job ){job}\b"
UPDATED = r"^\[(\S+)\] _slurm_rpc_update_job: complete JobId={job}\b"
DEADLINE_S = 60.0
TRAINS_S = 2.5  # a training runs before another job arrives
NO_EPILOG = "none"
EPILOG = "/shared/bench/epilog.sh"

Times = dict[str, float]


class Site:
    """A private cluster of one revision, with its controller."""

    def __init__(self, name: str, source: Path, epilog: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source)}
        up = ["sandbox", "up", "--name", name, "--nodes", "1", "--gpus-per-node", "4"]
        up += [] if epilog == NO_EPILOG else ["--slurm-conf-line", f"Epilog={EPILOG}"]
        subprocess.run([sys.executable, "-m", "tiresias", *up], env=environment, check=True, stdout=subprocess.DEVNULL)
        self.cluster = Cluster.find(name)
        self.folder = self.cluster.shared / "bench"
        for folder in (self.folder, *(self.cluster.shared / f"tiresias/{part}" for part in ("control", "checkpoints"))):
            folder.mkdir(parents=True)
            folder.chmod(0o1777)
        for file, text in (("probe", PROBE), ("short.sh", SHORT), ("training.sh", TRAINING), ("bench.toml", CONFIG)):
            (self.folder / file).write_text(text)
        script = self.folder / Path(EPILOG).name
        script.write_text(f"#!/bin/sh\nexec sleep {epilog}\n")
        script.chmod(0o755)
        command = ["tiresias", "controller", "--config", "/shared/bench/bench.toml"]
        log = (self.folder / "controller.log").open("w")
        self.controller = self.cluster.popen(command, user=self.cluster.spec.daemon_user, stdout=log, stderr=log)
        self.until(lambda: "leading" in (self.folder / "controller.log").read_text(), "the controller does not lead")

    def close(self) -> None:
        """End the cluster, and the controller with it."""
        self.cluster.down()
        self.controller.wait()

    def submit(self, way: str, script: str, *words: str, gpus: int = 4) -> str:
        """Return the job's id."""
        program, partition = WAYS[way]
        environment = {**ROOTS, "BASH_ENV": "/shared/bench/probe"}
        size = [f"--gpus={gpus}", f"--ntasks={gpus}"]
        command = [program, *COMMON, *size, f"--partition={partition}", f"/shared/bench/{script}", *words]
        return self.cluster.run(command, user="alice", env=environment).stdout.strip()

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            if time.monotonic() > deadline:
                raise SystemExit(f"{what}: {self.cluster.folder}")
            time.sleep(0.05)

    def ended(self, job: str) -> float:
        """Wait for the last line of a job that is not preempted; return its moment."""
        file = self.folder / f"{job}.end"
        self.until(lambda: file.exists() and file.read_text().strip(), f"job {job} does not end")
        return float(file.read_text())

    def quiet(self) -> None:
        """Wait until Slurm and the controller have no job."""
        self.until(lambda: not self.cluster.run(["squeue", "-h"]).stdout.strip(), "jobs stay")
        time.sleep(0.5)

    def lines(self, job: str) -> list[float]:
        """Return the first moments of the job's scripts."""
        return [float(line) for line in (self.folder / f"{job}.lines").read_text().split()]

    def logged(self, log: str, pattern: str, job: str) -> list[float]:
        """Return the moments of a job's lines in a log of Slurm's."""
        text = (self.cluster.log / f"{log}.log").read_text(errors="replace")
        return [_moment(found) for found in re.findall(pattern.format(job=job), text, re.MULTILINE)]

    def decisions(self, job: str, action: str) -> list[float]:
        """Return the moments of the controller's decisions about a job."""
        history = History.of(self.cluster.folder / "lib/journal.sqlite")
        with contextlib.closing(history):
            return [one.time for one in history.decisions(limit=1000)[::-1] if (one.id, one.action) == (job, action)]


def _moment(text: str) -> float:
    second, _, thousandths = text.partition(".")
    return timegm(time.strptime(second, "%Y-%m-%dT%H:%M:%S")) + int(thousandths) / 1000.0


def stages(site: Site, way: str, job: str, began: float) -> Times:
    """Return the stages of a start that began at a moment."""
    lines = site.lines(job)
    marks: dict[str, float] = {}
    if way != "sbatch":
        marks["decided"] = site.decisions(job, "start")[0]
    launched = site.logged("gpu01", LAUNCHED, job)[0]
    if way != "sbatch":
        marks["released"] = max(each for each in site.logged("slurmctld", UPDATED, job) if each <= launched)
    marks |= {"launched": launched, "shell": lines[0]}
    if way == "tsbatch":
        marks |= {"ready": float((site.folder / f"{job}.ready").read_text()), "program": lines[1]}
    return _lengths(began, marks)


def _lengths(began: float, marks: dict[str, float]) -> Times:
    found, before = {}, began
    for name, moment in marks.items():
        found[name], before = max(moment - before, 0.0), max(moment, before)
    return {**found, "total": before - began}


def idle(site: Site, way: str) -> Times:
    """A job on an idle cluster."""
    time.sleep(random.random())
    began = time.time()
    job = site.submit(way, "short.sh")
    site.ended(job)
    site.quiet()
    return stages(site, way, job, began)


def successor(site: Site, way: str) -> Times:
    """A job that waits for the end of another one."""
    first = site.submit(way, "short.sh", f"{random.uniform(2.0, 3.0):.3f}")
    second = site.submit(way, "short.sh")
    began = site.ended(first)
    site.ended(second)
    site.quiet()
    return stages(site, way, second, began)


def preemption(site: Site) -> Times:
    """A job for which a training is preempted."""
    training = site.submit("tsbatch", "training.sh")
    site.until(lambda: (site.folder / f"{training}.step").exists(), "the training does not begin")
    time.sleep(TRAINS_S + random.random())
    began = time.time()
    job = site.submit("tsbatch", "short.sh")
    site.ended(job)
    site.cluster.run(["scancel", training], user="alice")
    site.quiet()
    decided, freed = site.decisions(training, "preempt")[0], site.decisions(training, "parked")[0]
    after = stages(site, "tsbatch", job, freed)
    whole = {"decided": decided - began, "freed": freed - decided, **{key: after[key] for key in list(after)[1:-1]}}
    return {**whole, "total": sum(whole.values())}


CASES: dict[str, Callable[[Site], Times]] = {
    **{f"idle {way}": lambda site, way=way: idle(site, way) for way in WAYS},  # type: ignore[misc]
    **{f"successor {way}": lambda site, way=way: successor(site, way) for way in WAYS},  # type: ignore[misc]
    "preemption tsbatch": preemption,
}


@contextlib.contextmanager
def sites(before: str | None, epilogs: list[str]) -> Iterator[dict[str, Site]]:
    """Yield a site for each revision and Epilog."""
    with contextlib.ExitStack() as stack:
        trees = {"before": stack.enter_context(revision(before))} if before else {}
        trees["after"] = ROOT / "src"
        found = {}
        for name, source in trees.items():
            for number, epilog in enumerate(epilogs):
                site = Site(f"bench-{name}-{number}-{os.getpid()}", source, epilog)
                found[f"{name}, epilog {epilog}"] = site
                stack.callback(site.close)
        yield found


def summary(rounds: list[Times]) -> dict[str, list[float]]:
    """Return the median and the 95th percentile of each stage."""
    return {
        name: [round(statistics.median(values), 3), round(float(np.percentile(values, 95)), 3)]
        for name in rounds[0]
        for values in [[one[name] for one in rounds]]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--before", metavar="REVISION", help="another revision of this repository, on a cluster of its own"
    )
    parser.add_argument("--epilog", default=NO_EPILOG, help="lengths, seconds (default: %(default)s)")
    parser.add_argument("--cases", default=",".join(CASES), help="default: %(default)s")
    args = parser.parse_args()
    with sites(args.before, args.epilog.split(",")) as found:
        rounds: dict[str, dict[str, list[Times]]] = {
            name: {case: [] for case in args.cases.split(",")} for name in found
        }
        for _ in range(args.rounds):
            for case in args.cases.split(","):
                for name, site in found.items():
                    rounds[name][case].append(CASES[case](site))
    result = {name: {case: summary(times) for case, times in cases.items()} for name, cases in rounds.items()}
    machine = {"machine": platform.machine(), "load": os.getloadavg()[1], "rounds": args.rounds}
    print(json.dumps({**machine, "seconds": result}, indent=2))


if __name__ == "__main__":
    main()
