"""Measure how reference training steps slow beside generators of load, on one socket of this machine.

Three steps (a perceptron, embeddings in a large table, an input pipeline) run alone and beside processes that compute and copy
memory, in random order. The samples are a table for `tiresias interference fit`. The machine must be otherwise idle; on a cluster
run it as an exclusive job:

  srun --exclusive --nodes=1 tiresias interference measure --out samples.csv
  tiresias interference fit samples.csv
"""

from __future__ import annotations

import argparse
import csv
import os
from pathlib import Path

from tiresias.errors import TiresiasError, UsageError
from tiresias.profiler.interference import calibration
from tiresias.profiler.interference.calibration import CalibrationSample, LoadLevels
from tiresias.profiler.interference.reference_steps import reference_steps

LEAST_SECONDS, MOST_SECONDS = 0.05, 60.0
MOST_LOAD = 16.0  # times the processors of the socket
DEFAULT_LEVELS = LoadLevels()


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.csv", help="the samples")
    parser.add_argument(
        "--seconds", type=float, default=1.0, metavar="S", help="of each of the measurements (default: %(default)s)"
    )
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="samples of each step and load (default: 1)")
    for kind, levels in DEFAULT_LEVELS._asdict().items():
        shown = ",".join(f"{level:g}" for level in levels)
        parser.add_argument(
            f"--{kind}", default=shown, metavar="LEVELS",
            help=f"{kind} load beside the steps, as parts of the socket's processors (default: %(default)s)",
        )  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of their order (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    if not LEAST_SECONDS <= args.seconds <= MOST_SECONDS:
        raise UsageError(f"--seconds {args.seconds:g}: write a number from {LEAST_SECONDS:g} to {MOST_SECONDS:g}")
    if not 1 <= args.repeat <= 100 or args.seed < 0:
        raise UsageError("--repeat and --seed: write a number from 1 to 100, and one of 0 or more")
    levels = LoadLevels(_levels("--cpu", args.cpu), _levels("--memory", args.memory))
    processors = calibration.socket_processors()
    os.sched_setaffinity(0, processors)
    try:
        count = _write(args, levels, len(processors))
    except OSError as error:
        raise TiresiasError(f"{args.out}: cannot be written: {error.strerror}") from error
    print(f"{count} samples on {len(processors)} processors of one socket: tiresias interference fit {args.out}")
    return 0


def _levels(option: str, text: str) -> tuple[float, ...]:
    try:
        levels = tuple(map(float, text.split(",")))
    except ValueError:
        levels = (-1.0,)
    if not all(0.0 <= level <= MOST_LOAD for level in levels):
        raise UsageError(f"{option} {text!r:.40}: write numbers from 0 to {MOST_LOAD:g}, such as 0,0.5,1")
    return levels


def _write(args: argparse.Namespace, levels: LoadLevels, processors: int) -> int:
    count = 0
    with args.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(CalibrationSample._fields)
        bandwidth = calibration.memory_bandwidth(processors, args.seconds)
        for turn in range(args.repeat):
            steps = reference_steps(args.seed + turn)
            for sample in calibration.samples(steps, levels, processors, args.seconds, args.seed + turn, bandwidth):
                writer.writerow([f"{value:.6g}" for value in sample])
                file.flush()  # what is measured is kept when the command is ended
                count += 1
    return count
