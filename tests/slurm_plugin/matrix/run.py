"""Compare the resources of programs in plain Slurm and under Tiresias, for every form of a request.

    python -m tests.slurm_plugin.matrix.run --suite forky --json FILE [--part few] [--only TEXT] [--backend commands]

Starts a private cluster, submits the requests while no controller runs, then again under one in mode exact, AT_ONCE at a time, with
`srun` in each job, and compares (outcome.py). What Slurm gives to some requests (--gpus-per-socket, a total of GPUs) depends on
what else runs: those that differ run again both ways, each alone, and count as different where they still are. So do those that
Slurm has started alone under the controller, so that their start is the controller's. "srun fails" counts the jobs of which srun
fails in plain Slurm, too. Exit code 1 where something differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.slurm_plugin.controller.centre import Centre
from tests.slurm_plugin.matrix.outcome import Outcome, differences
from tests.slurm_plugin.matrix.requests_matrix import Request, everything, few
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec

OPTIONS: dict[str, Any] = {
    "nodes": 16,
    "gpus_per_node": 4,
    "gpu_type": "v100",
    "cpus_per_node": 16,
    "sockets_per_node": 2,
    "settings": {"KillWait": "5", "MinJobAge": "20"},
}
QUIET_S = 8.0  # jobs that still wait so long after the last end of another never start in plain Slurm
CYCLE_S = 40.0  # longer under the controller: 22.05 prints the records of all jobs for each that is read
LIMIT_S = 900.0
AT_ONCE = 40  # requests
PERIOD_S = 200.0  # so that new jobs wait for it on a busy machine: Slurm starts alone what has waited three periods
JOB = """#!/bin/bash
exec > "$OUT" 2>&1
env
scontrol -d show job -o $SLURM_JOB_ID
srun /shared/matrix/task.sh
echo SRUN $?
"""
TASK = """#!/bin/bash
devices=${CUDA_VISIBLE_DEVICES//[^,]/}
echo TASK $SLURM_PROCID $(( ${#CUDA_VISIBLE_DEVICES} ? ${#devices} + 1 : 0 ))
"""
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")


def submit(cluster: Cluster, requests: list[Request], phase: str) -> list[tuple[str, str]]:
    """Submit the requests; return (job id, "") or ("", message of sbatch) of each."""
    folder = cluster.shared / "matrix"
    (folder / phase).mkdir(parents=True)
    for path in (folder, folder / phase):
        path.chmod(0o777)
    for name, text in (("job.sh", JOB), ("task.sh", TASK)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    lines = [
        f"OUT=/shared/matrix/{phase}/{number} sbatch --parsable --chdir=/tmp --output=/dev/null --time=5 {shlex.join(one.options)}"
        f" /shared/matrix/job.sh 2>&1 | tr '\\n' ' '; echo"
        for number, one in enumerate(requests)
    ]
    (folder / f"{phase}.sh").write_text("\n".join(lines))
    answers = cluster.run(["bash", f"/shared/matrix/{phase}.sh"], user="alice", timeout=600).stdout.splitlines()
    last = [one.split()[-1] if one.split() else "" for one in answers]
    return [(word, "") if word.isdigit() else ("", line.strip()) for word, line in zip(last, answers, strict=True)]


def states(cluster: Cluster) -> dict[str, tuple[str, str]]:
    lines = cluster.run(["squeue", "-h", "-t", "all", "-o", "%A|%T|%r"]).stdout.splitlines()
    return {job: (state, reason) for job, state, reason in (line.split("|", 2) for line in lines)}


def settle(cluster: Cluster, jobs: set[str], quiet: float) -> dict[str, tuple[str, str]]:
    """Wait until all have ended, or nothing has changed for `quiet` seconds; return states and reasons."""
    last, moved, end = -1, time.monotonic(), time.monotonic() + LIMIT_S
    found: dict[str, tuple[str, str]] = {}
    while time.monotonic() < end:
        found |= {job: one for job, one in states(cluster).items() if job in jobs}  # Slurm forgets ended ones
        ended = sum(state in ENDED for state, _ in found.values())
        if ended != last or any(state in ("RUNNING", "COMPLETING", "CONFIGURING") for state, _ in found.values()):
            last, moved = ended, time.monotonic()
        if ended == len(jobs) or time.monotonic() - moved > quiet:
            return found
        time.sleep(0.5)
    return found


def alone(cluster: Cluster, requests: list[Request], name: str) -> list[Outcome]:
    """Run the requests one after the other, each on an idle cluster."""
    return [phase(cluster, [one], f"{name}-{number}")[0] for number, one in enumerate(requests)]


def in_parts(cluster: Cluster, requests: list[Request], name: str) -> list[Outcome]:
    parts = [requests[first : first + AT_ONCE] for first in range(0, len(requests), AT_ONCE)]
    return [outcome for number, part in enumerate(parts) for outcome in phase(cluster, part, f"{name}-{number}")]


def phase(cluster: Cluster, requests: list[Request], name: str) -> list[Outcome]:
    answers = submit(cluster, requests, name)
    quiet = CYCLE_S if name.startswith("tiresias") else QUIET_S
    found = settle(cluster, {job for job, _ in answers if job}, quiet)
    outcomes = []
    for number, (job, words) in enumerate(answers):
        outcome = Outcome(rejected=words, job=job)
        outcome.state, outcome.reason = found.get(job, ("", ""))
        file = cluster.shared / "matrix" / name / str(number)
        if file.exists():
            outcome.read(file.read_text(errors="replace"))
        outcomes.append(outcome)
    left = [job for job, (state, _) in found.items() if state not in ENDED]
    for first in range(0, len(left), 100):
        cluster.run(["scancel", "--quiet", *left[first : first + 100]], check=False)
    return outcomes


def _decisions(controller: Centre, action: str) -> list[str]:
    return [line[line.index("job ") :] for line in controller.log() if f": {action}: " in line and "job " in line]


def _begun(controller: Centre) -> set[str]:
    """Return the jobs whose start the controller has begun."""
    return {line.split()[1].rstrip(":") for line in _decisions(controller, "start")}


def compare(cluster: Cluster, requests: list[Request], backend: str = "auto") -> dict[str, Any]:
    plain = in_parts(cluster, requests, "plain")
    controller = Centre(cluster)
    config = controller.configure(backend=backend, period=PERIOD_S, preemption={"start_timeout": 30.0})[0]
    controller.start(config)
    try:
        own = in_parts(cluster, requests, "tiresias")
        controller.stop()
        begun = _begun(controller)
        again = [
            number
            for number, one in enumerate(requests)
            if differences(one, plain[number], own[number]) or (own[number].code and own[number].job not in begun)
        ]
        for number, outcome in zip(again, alone(cluster, [requests[one] for one in again], "plain-alone"), strict=True):
            plain[number] = outcome
        controller.start(config)
        for number, outcome in zip(
            again, alone(cluster, [requests[one] for one in again], "tiresias-alone"), strict=True
        ):
            own[number] = outcome
        begun = _begun(controller)
        left = {line.split()[1].rstrip(":"): line for line in _decisions(controller, "left to Slurm")}
    finally:
        controller.stop()
    found = [
        (one, two, three, differences(one, two, three)) for one, two, three in zip(requests, plain, own, strict=True)
    ]
    return {
        "slurm": cluster.slurm_version, "combinations": len(requests), "rejected": sum(bool(one.rejected) for one in plain),
        "never start": sum(one.state == "PENDING" for one in plain), "ran": sum(one.state == "COMPLETED" for one in plain),
        "srun fails in plain Slurm": [one.words for one, two in zip(requests, plain, strict=True) if two.code not in ("", "0")],
        "left to Slurm": [f"{one.words}: {left[two.job]}" for one, two in zip(requests, own, strict=True) if two.job in left],
        "other number of nodes": sum(len(one.nodes) != len(two.nodes) for _, one, two, _ in found),
        "run again alone": len(again), "GPUs": [sum(one.totals()[0] for one in outcomes) for outcomes in (plain, own)],
        "tasks": [sum(len(one.tasks) for one in outcomes) for outcomes in (plain, own)],
        "started by the controller": sum(one.state == "COMPLETED" and one.job in begun - left.keys() for one in own),
        "differences": sum(bool(differ) for *_, differ in found),
        "different": [
            {"request": one.words, "differs": differ, "plain": asdict(two), "tiresias": asdict(three)}
            for one, two, three, differ in found
            if differ
        ],
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="forky", choices=("forky", "trixie", "bookworm"))
    parser.add_argument("--backend", default="auto", choices=("auto", "pyslurm", "commands"))
    parser.add_argument("--part", default="all", choices=("all", "few"))
    parser.add_argument("--only", default="", help="requests that contain this text")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    spec = ClusterSpec(**{"name": f"matrix-{args.suite}-{os.getpid()}", "suite": args.suite, **OPTIONS})
    cluster = Cluster.up(spec, report=print)
    try:
        requests = everything() if args.part == "all" else few()
        result = compare(cluster, [one for one in requests if args.only in one.words], args.backend)
    finally:
        cluster.down()
    text = json.dumps(result, indent=1)
    if args.json:
        args.json.write_text(text)
    print(json.dumps({key: value for key, value in result.items() if key != "different"}, indent=1))
    for one in result["different"]:
        print(one["request"], one["differs"])
    return int(bool(result["differences"]))


if __name__ == "__main__":
    sys.exit(main())
