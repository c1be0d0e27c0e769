"""What a call of tsbatch costs beyond one of sbatch. Prints JSON.

    python bench/tsbatch.py [--calls 200] [--suite forky|trixie|bookworm] [--json FILE]

A private cluster of one node. One user submits the same held job `--calls` times with each command, in turns, so that both meet
the same load. Each job is cancelled before the next call.

wall     seconds of a call: median, 95th percentile
cpu      seconds of processor time of a call with all its processes, slurmctld's excluded
beyond   tsbatch's median less sbatch's; cpu is comparable on a busy machine, wall on a quiet one only
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from pathlib import Path
from typing import Any

from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec

SCRIPT = "#!/bin/bash\n#SBATCH --gres=gpu:1 --time=10 -o /dev/null\npython3 train.py\n"
TIMER = """
import json, os, resource, subprocess, sys, time
def call(command):
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([command, "--hold", "job.sh"], capture_output=True, text=True, check=True)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["scancel", done.stdout.split()[-1]], check=True)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
found = {"sbatch": [], "tsbatch": []}
for command in found:
    call(command)
for number in range(int(sys.argv[1])):
    for command in sorted(found, reverse=number % 2):
        found[command].append(call(command))
print(json.dumps(found))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--suite", default="forky")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    cluster = Cluster.up(ClusterSpec(name=f"tsbatch{os.getpid()}", nodes=1, suite=args.suite))
    try:
        results = measure(cluster, args.calls)
    finally:
        cluster.down()
    text = json.dumps(results, indent=2)
    if args.json:
        args.json.write_text(text + "\n")
    print(text)
    return 0


def measure(cluster: Cluster, calls: int) -> dict[str, Any]:
    folder = cluster.shared / "bench"
    folder.mkdir()
    folder.chmod(0o1777)
    (folder / "job.sh").write_text(SCRIPT)
    (folder / "train.py").write_text("from tiresias.checkpoint import Checkpointer\n")
    roots = {"TIRESIAS_CONTROL_ROOT": "/shared/bench/control", "TIRESIAS_CHECKPOINT_ROOT": "/shared/bench/checkpoints"}
    timer = ["python3", "-c", TIMER, str(calls)]
    done = cluster.run(
        timer, user="alice", cwd="/shared/bench", env={**roots, "HOME": "/shared/bench"}, timeout=60 + 4 * calls
    )
    found = json.loads(done.stdout)
    results = {
        command: {name: summary([call[at] for call in timed]) for at, name in enumerate(("wall", "cpu"))}
        for command, timed in found.items()
    }
    beyond = {
        name: round(results["tsbatch"][name]["median"] - results["sbatch"][name]["median"], 4)
        for name in ("wall", "cpu")
    }
    return {
        "calls": calls,
        "suite": cluster.spec.suite,
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": python(cluster),
        **results,
        "beyond": beyond,
    }


def summary(seconds: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(seconds), 4), "p95": round(sorted(seconds)[int(0.95 * len(seconds))], 4)}


def python(cluster: Cluster) -> str:
    return cluster.run(["python3", "--version"]).stdout.split()[-1]


if __name__ == "__main__":
    raise SystemExit(main())
