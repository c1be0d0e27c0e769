"""Styles of placement on a real Slurm: are steps as slow beside other jobs as the controller expects? Prints JSON.

    python -m tests.co_location.placements [--jobs 60] [--seed 1] [--weights placement.npz] [--out FILE]

A private cluster of two nodes with four GPUs; the jobs of a node share one real core (input_pipeline.py). A quiet machine with two
cores is needed: 12 minutes.

1. Calibration: each kind of job runs alone, and in pairs. The controller of mode exact times the steps from progress reports, and
   learns the table of interference as on any site. Its state folder is kept.
2. The same jobs arrive at the same moments under each style. Each controller starts with a copy of that state folder, so what it
   learned is the same for all, and no run of a style is among the runs that the table was learned from.

For each run the table is applied to the jobs that it had beside it, each by the part of the time: `expected`. `measured` is its
seconds a step, by the clock of the program, divided by those of its kind alone in the calibration. `kendall_tau` is the rank
correlation of both over the runs of a style. `ranking` has the styles by mean slowdown, expected and measured.

Without --weights those of style learned are written by `tiresias placement train` with one episode, which needs PyTorch: its scores
are then those with which a training begins (docs/how-to/learned-placement.md).

Exit code 1: an invariant is violated, or the controller learned no table.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.co_location.pipeline_centre import Calibrated, PipelineCentre, cluster_spec
from tests.co_location.pipeline_jobs import KINDS, calibration, workload
from tests.co_location.predictions import alone_seconds, judged, of_style, rankings, timing
from tiresias.__main__ import main as tiresias
from tiresias.errors import UsageError
from tiresias.sandbox.slurm_conf import topology_conf
from tiresias.scheduler.place.learned.weights_file import load

LEARNED = "learned"
STYLES = ("random", "consolidate", "least_interference", LEARNED)
UNLESS_ZERO = (
    "lost", "run_twice", "steps_redone", "killed_runs", "curves_differ", "ledger_missing", "other_nodes", "double_booked",
    "open_steps",
)  # fmt: skip
WEIGHTS = "/shared/placement.npz"
NOT_USED = "jobs are placed by"  # beginning of the alarm


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--jobs", type=int, default=60, help="of each style")
    found.add_argument("--gap", type=float, default=2.3, help="mean seconds between two submissions")
    found.add_argument("--steps", type=int, default=60, help="of each job; one takes 0.1 s alone")
    found.add_argument("--repeats", type=int, default=2, help="of each pair in the calibration")
    found.add_argument("--nodes", type=int, default=2)
    found.add_argument("--seed", type=int, default=1, help="of the kinds and moments of the jobs")
    found.add_argument("--styles", type=lambda text: text.split(","), default=list(STYLES))
    found.add_argument("--weights", type=Path, help="of style learned")
    found.add_argument("--suite", default="forky")
    found.add_argument("--out", type=Path, help="the JSON, too")
    return found


def main(argv: list[str] | None = None) -> int:
    """Run the experiment; return the exit code."""
    args = parser().parse_args(argv)
    if len(os.sched_getaffinity(0)) < args.nodes:
        raise UsageError(f"--nodes is {args.nodes}: each node needs a core, and this process may use fewer")
    with tempfile.TemporaryDirectory() as folder:
        weights = args.weights or (untrained(args, Path(folder)) if LEARNED in args.styles else None)
        found = measured(args, weights)
    text = json.dumps(found, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")
    print(markdown(found), file=sys.stderr)
    for line in found["broken"]:
        print(f"BROKEN: {line}", file=sys.stderr)
    return 1 if found["broken"] else 0


def untrained(args: argparse.Namespace, folder: Path) -> Path:
    """Return weights for the cluster with the scores of the beginning of a training."""
    topology, out = folder / "topology.conf", folder / "placement.npz"
    topology.write_text(topology_conf(cluster_spec("co-location", args.suite, args.nodes)))
    words = [
        "placement",
        "train",
        "--topology",
        str(topology),
        "--episodes",
        "1",
        "--demonstrations",
        "1",
        "--jobs",
        "6",
    ]
    with contextlib.redirect_stdout(sys.stderr):
        if code := tiresias([*words, "--out", str(out)]):
            raise SystemExit(code)
    return out


def measured(args: argparse.Namespace, weights: Path | None) -> dict[str, Any]:
    """Calibrate, run all styles and return the results."""
    began = time.monotonic()
    centre = PipelineCentre(f"co-location-{os.getpid()}", args.suite, args.nodes, args.steps)
    try:
        say("calibration")
        calibrated, alone_runs = centre.calibrate(calibration(centre.cluster.spec.node_names, args.repeats))
        alone = alone_seconds(alone_runs)
        if weights:
            shutil.copy(weights, centre.cluster.shared / Path(WEIGHTS).name)
        styles = {}
        for style in args.styles:
            styles[style] = style_results(centre, style, args, calibrated, alone)
            say(json.dumps({style: styles[style]}))  # what is known if a later style fails
    finally:
        centre.stop("KILL")
        centre.cluster.down()
    return {
        "options": {name: getattr(args, name) for name in ("jobs", "gap", "steps", "repeats", "nodes", "seed")},
        "machine": {"cores": os.cpu_count(), "machine": platform.machine(), "slurm": centre.cluster.slurm_version},
        "seconds": round(time.monotonic() - began),
        "weights": dict(load(weights).training) if weights else None,
        "calibration": calibration_results(calibrated, alone),
        "styles": styles,
        "ranking": rankings(styles),
        "broken": broken(styles, calibrated),
    }


def style_results(
    centre: PipelineCentre, style: str, args: argparse.Namespace, calibrated: Calibrated, alone: dict[str, float]
) -> dict[str, Any]:
    """Run the jobs under a style and return its results."""
    say(style)
    began, load = time.monotonic(), os.getloadavg()[0]
    centre.start_style(style, calibrated, WEIGHTS if style == LEARNED else "")
    jobs = workload(style, args.jobs, args.gap, args.seed)
    centre.play(jobs)
    status = centre.status()
    centre.stop()
    runs, timed = centre.runs(jobs), centre.controller_seconds(jobs)
    return {
        **of_style(judged(runs, alone, calibrated.table)),
        "timed_by_controller": timing(runs, timed),
        "invariants": centre.invariants(jobs),
        "interference": status.get("interference"),
        "alarms": status.get("alarms", []),
        "seconds": round(time.monotonic() - began),
        "load_before": round(load, 2),
    }


def calibration_results(calibrated: Calibrated, alone: dict[str, float]) -> dict[str, Any]:
    """Return what was learned before."""
    table, learned = calibrated.table, calibrated.learned
    return {
        "core_used_alone": {kind.name: round(kind.use, 2) for kind in KINDS},
        "step_alone": {kind: round(seconds, 4) for kind, seconds in alone.items()},
        "slowdown_beside": {
            kind: dict(zip(table.kinds, row.round(3).tolist(), strict=True))
            for kind, row in zip(table.kinds, table.slowdown, strict=True)
        }
        if table
        else None,
        "samples": learned.samples,
        "error": round(learned.error, 4),
        "error_without": round(learned.error_without, 4),
    }


def markdown(found: dict[str, Any]) -> str:
    """Return the table of docs/how-to/interference.md."""
    rows = [
        "| style | mean slowdown expected | measured | rank correlation | error of the expectation | error without | mean JCT |",
        "|---|---|---|---|---|---|---|",
    ]
    for style, each in found["styles"].items():
        slowdown, tau = each["mean_slowdown"], each["kendall_tau"]
        rows.append(
            f"| {style} | {slowdown['expected']:.2f} | {slowdown['measured']:.2f} | {'-' if tau is None else f'{tau:.2f}'} "
            f"| {each['error']:.1%} | {each['error_without']:.1%} | {each['mean_jct']:.1f} s |"
        )
    return "\n".join(rows)


def broken(styles: dict[str, dict[str, Any]], calibrated: Calibrated) -> list[str]:
    """Return a line for each violated invariant, for a network that was not used, and for a calibration that taught nothing."""
    found = [
        f"{style}: {name} is {each['invariants'][name]:g}"
        for style, each in styles.items()
        for name in UNLESS_ZERO
        if each["invariants"][name]
    ]
    found += [
        f"{style}: {line}" for style, each in styles.items() for line in each["alarms"] if line.startswith(NOT_USED)
    ]
    if calibrated.table is None:
        found.append(
            "calibration: the table of interference is not surely better than none; repeat it on a quiet machine"
        )
    return found


def say(words: str) -> None:
    """Print the progress."""
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
