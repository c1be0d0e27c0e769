"""Results of `tiresias simulate` for every trace, policy and placement, to show that a change of the code changed no decision.

    python tests/simulator/results.py record FILE [--quick] [--traces DIR]   a line for each run: its command, a hash of its output
    python tests/simulator/results.py compare BEFORE AFTER                   exit code 1 if a run of both differs

A hash covers the JSON document without wall times, and the table of all jobs (`--jobs-out`): start, end, preemptions. A run is a
process of its own and uses the command line only, so that two revisions of the code can be compared. Runs that FILE already has
are not repeated. The large traces are replayed by node with their first jobs only: by node, one decision costs milliseconds.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

TRACES = Path(__file__).parents[3] / "shared" / "data"
POLICIES = (
    "las",
    "gittins",
    "adaptive",
    "fifo",
    "best_effort",
    "sf",
    "time_sharing",
    "continuous_las",
    "continuous_gittins",
    "gittins_known",
    "srtf",
    "srsf",
)
PLACEMENTS = ("skew", "consolidate", "spread", "first_fit", "load_balancing", "random")
SMALL = [f"{kind}_seed{seed}.csv" for kind, seed in product(("testbed480", "testbed480cal"), (1, 2, 3))]
LARGE = {  # nodes, GPUs of a node
    "alibaba_crux2023.csv": (250, 8),
    "alibaba_openb2023_gpu.csv.gz": (310, 8),
    "traces/helios_venus_may28_a.csv.gz": (35, 8),
    "traces/helios_venus_may28_b.csv.gz": (35, 8),
    "philly_full.csv.gz": (475, 4),
}
TESTBED = (15, 4)
FIRST = 400  # jobs of a large trace that are placed by node
SLOW_ON_PHILLY = ("time_sharing", "continuous_las", "continuous_gittins")  # hours each
MORE = {  # what else a run may be about: its options, on one small trace
    "limits": ["--threshold", "3200,32000", "--promote-knob", "4", "--starve-limit", "3600", "--min-run", "60"],
    "costs": ["--preemption-cost", "10,52"],
    "failures": ["--mtbf", "200000", "--checkpoint-interval", "1800"],
    "defragment": ["--by-node", "--placement", "consolidate", "--defragment", "4", "--patience", "600"],
    "last start": ["--in-queue-order", "last_start", "--interval", "60"],
}


def runs(quick: bool) -> Iterator[tuple[str, int | None, list[str]]]:
    """Trace, how many of its jobs (None: all), options."""
    for name in SMALL[:1] if quick else SMALL:
        for policy in POLICIES:
            yield name, None, [*_size(TESTBED), "--policy", policy]
    for policy, placement in product(POLICIES, PLACEMENTS):
        yield SMALL[3], 200, [*_size(TESTBED), "--policy", policy, "--by-node", "--placement", placement]
    for policy, more in product(("las", "adaptive"), MORE.values()):
        yield SMALL[3], 200, [*_size(TESTBED), "--policy", policy, *more]
    for name, size in {} if quick else LARGE.items():
        for policy in POLICIES:
            if not (name.startswith("philly") and policy in SLOW_ON_PHILLY):
                yield name, None, [*_size(size), "--policy", policy, "--threshold", "3600,36000"]
        for policy, placement in product(("las", "adaptive"), PLACEMENTS):
            yield (
                name,
                FIRST,
                [*_size((size[0] // 4, size[1])), "--policy", policy, "--by-node", "--placement", placement],
            )


def _size(nodes_and_gpus: tuple[int, int]) -> list[str]:
    return ["--nodes", str(nodes_and_gpus[0]), "--gpus-per-node", str(nodes_and_gpus[1])]


def result(trace: Path, first: int | None, options: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = _beginning(trace, first, Path(folder)) if first else trace
        document, jobs = Path(folder) / "result.json", Path(folder) / "jobs.csv"
        command = [sys.executable, "-m", "tiresias", "simulate", str(path), *options]
        done = subprocess.run(
            [*command, "--json", document, "--jobs-out", jobs], capture_output=True, text=True, check=False
        )
        if done.returncode:
            return {"exit": done.returncode, "error": done.stderr.strip().splitlines()[-1:]}
        found = json.loads(document.read_text())
        for each in found["policies"].values():
            each.pop("wall_seconds")
        text = json.dumps(found, sort_keys=True).encode() + b"".join(
            file.read_bytes() for file in sorted(Path(folder).glob("jobs*"))
        )
        return {
            "sha256": hashlib.sha256(text).hexdigest(),
            "mean_jct": next(iter(found["policies"].values()))["mean_jct"],
        }


def _beginning(trace: Path, first: int, folder: Path) -> Path:
    path = folder / trace.name.removesuffix(".gz")
    with gzip.open(trace, "rt") if trace.suffix == ".gz" else trace.open() as lines:
        path.write_text("".join(islice(lines, first + 1)))
    return path


def record(args: argparse.Namespace) -> int:
    known = _read(args.file) if args.file.exists() else {}
    with args.file.open("a") as file:
        for name, first, options in runs(args.quick):
            run = " ".join([name, f"first {first}" if first else "all", *options])
            if run not in known:
                print(json.dumps({"run": run, **result(args.traces / name, first, options)}), file=file, flush=True)
    print(f"{len(_read(args.file))} runs in {args.file}")
    return 0


def compare(args: argparse.Namespace) -> int:
    before, after = _read(args.before), _read(args.after)
    both = before.keys() & after.keys()
    different = sorted(run for run in both if before[run] != after[run])
    for run in different:
        print(f"different: {run}\n  before {before[run]}\n  after  {after[run]}")
    print(
        f"{len(both)} runs compared, {len(different)} differ; {len(before.keys() ^ after.keys())} are in one file only"
    )
    return 1 if different or not both else 0


def _read(path: Path) -> dict[str, Any]:
    found = map(json.loads, path.read_text().splitlines())
    return {each.pop("run"): each for each in found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("record")
    one.add_argument("file", type=Path)
    one.add_argument("--quick", action="store_true", help="two small traces only")
    one.add_argument("--traces", type=Path, default=TRACES)
    one.set_defaults(run=record)
    two = commands.add_parser("compare")
    two.add_argument("before", type=Path)
    two.add_argument("after", type=Path)
    two.set_defaults(run=compare)
    args = parser.parse_args()
    return int(args.run(args))


if __name__ == "__main__":
    sys.exit(main())
