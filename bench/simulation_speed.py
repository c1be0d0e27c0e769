"""Speed of the simulator, policy by policy, compared with another revision and with the compiled copy. Prints JSON.

    python bench/simulation_speed.py [--before REVISION] [--compiled FOLDER] [--jobs N] [--policy P,...] [--repeat N]
    python bench/simulation_speed.py --million

Each tree is measured in turns with the others, in a process of its own: seconds of processor time of that process, the best of
`--repeat` turns, by phase. `ratio` is the simulation's time in the first tree over that in this one. `same`: whether start, end
and preemptions of every job, the timeline and the number of decisions are those of the first tree. FOLDER is made by
etc/packages/compiled.py; it is run by the Python that --python names.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared/data"
POLICIES = ("las", "adaptive", "srsf", "fifo", "gittins")
PHASES = ("import", "read", "simulate", "summary", "total")

# Executed with each tree: names that all revisions have.
ONE = """
import hashlib, json, sys, time
began = time.process_time()
from dataclasses import replace
from pathlib import Path
from tiresias.scheduler.config import PolicyConfig
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.generators import philly_like
from tiresias.simulator.outcome_metrics import summary
from tiresias.simulator.simulation import simulate
from tiresias.simulator.trace import read_trace
moments = [began, time.process_time()]
file, policy, jobs = sys.argv[1], sys.argv[2], int(sys.argv[3])
trace = philly_like(jobs) if file == "generated" else read_trace(Path(file), 2000)
trace = trace.first(jobs) if jobs and file != "generated" else trace
moments.append(time.process_time())
config = replace(PolicyConfig.paper(), thresholds=(3600.0,))
experiment = Setup("", trace, ClusterSize(250, 8), config).experiment(policy)
outcome = simulate(experiment.trace, experiment.cluster, experiment.rules)
moments.append(time.process_time())
numbers = summary(trace, experiment.cluster, outcome, 0.0)
moments.append(time.process_time())
line = outcome.timeline
arrays = (outcome.start, outcome.finish, outcome.preemptions, line.time, line.used, line.running, line.waiting)
digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
seconds = [after - before for before, after in zip(moments, moments[1:])]
print(json.dumps([[*seconds, sum(seconds)], digest, len(trace), outcome.decisions, numbers["preemptions"]]))
"""

Numbers = dict[str, Any]


def measure(trees: dict[str, tuple[str, Path]], work: tuple[str, str, int], repeat: int) -> dict[str, Numbers]:
    """`trees`: name -> interpreter, folder. `work`: trace, policy, jobs (0: all)."""
    found: dict[str, list[Any]] = {name: [] for name in trees}
    for _ in range(repeat):
        for name, (python, folder) in trees.items():
            found[name].append(_once(python, folder, work))
    first = next(iter(found.values()))
    return {name: _numbers(each, first) for name, each in found.items()}


def _once(python: str, folder: Path, work: tuple[str, str, int]) -> Any:
    done = subprocess.run(
        [python, "-c", ONE, *map(str, work)],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def _numbers(runs: list[Any], first: list[Any]) -> Numbers:
    best = min(runs, key=lambda run: run[0][-1])
    seconds = {phase: round(each, 2) for phase, each in zip(PHASES, best[0], strict=True)}
    simulated = min(run[0][2] for run in first)
    return {
        **seconds,
        "ratio": round(simulated / min(run[0][2] for run in runs), 2),
        "same": best[1:] == first[0][1:],
        "jobs": best[2],
        "decisions": best[3],
        "preemptions": best[4],
        "microseconds_per_decision": round(best[0][2] / best[3] * 1e6, 1),
    }


@contextlib.contextmanager
def revision(name: str) -> Iterator[Path]:
    """Yield the sources of a revision, in a worktree of their own."""
    with tempfile.TemporaryDirectory(prefix="before-") as folder:
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", f"{folder}/tree", name], check=True)
        try:
            yield Path(folder, "tree/src")
        finally:
            subprocess.run([*git, "remove", "--force", f"{folder}/tree"], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="REVISION", help="another revision of this repository")
    parser.add_argument("--compiled", metavar="FOLDER", type=Path, help="of etc/packages/compiled.py")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that FOLDER was compiled for")
    parser.add_argument("--trace", type=Path, default=DATA / "philly_full.csv.gz")
    parser.add_argument("--jobs", type=int, default=0, help="the first ones only")
    parser.add_argument("--policy", default=",".join(POLICIES))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--million", action="store_true", help="one million generated jobs under las, and nothing else")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        trees = {"before": (sys.executable, stack.enter_context(revision(args.before)))} if args.before else {}
        trees["after"] = (sys.executable, ROOT / "src")
        if args.compiled:
            trees["compiled"] = (args.python, args.compiled)
        work = [(str(args.trace), policy, args.jobs) for policy in args.policy.split(",")]
        if args.million:
            work = [("generated", "las", 1_000_000)]
        result = [
            {"trace": Path(each[0]).name, "policy": each[1], **measure(trees, each, args.repeat)} for each in work
        ]
    print(json.dumps({"machine": platform.machine(), "python": platform.python_version(), "runs": result}, indent=2))


if __name__ == "__main__":
    main()
