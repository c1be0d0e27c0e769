"""Measure how reference training steps slow beside generators of load, on one socket of this machine.

Three steps (a perceptron, embeddings in a large table, an input pipeline) run alone and beside processes that compute and copy
memory, in random order. The samples are a table for `tiresias interference fit`. The machine must be otherwise idle; on a cluster
run it as an exclusive job:

  srun --exclusive --nodes=1 tiresias interference measure --out samples.csv
  tiresias interference fit samples.csv
"""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path

from tiresias.errors import TiresiasError, UsageError
from tiresias.profiler.interference import calibration, sampling_process
from tiresias.profiler.interference.calibration import CalibrationSample, LoadLevels
from tiresias.profiler.interference.sampling_process import SamplingPlan

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
    processors = tuple(calibration.socket_processors())
    cpu, memory = _levels("--cpu", args.cpu), _levels("--memory", args.memory)
    plan = SamplingPlan(cpu, memory, processors, args.seconds, args.repeat, args.seed)
    try:
        count = _write(args.out, plan)
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


def _write(out: Path, plan: SamplingPlan) -> int:
    """Write the samples; returns their number."""
    with out.open("w", encoding="utf-8") as file:
        file.write(",".join(CalibrationSample._fields) + "\n")
        file.flush()
        env = sampling_process.environment(os.environ)
        done = subprocess.run(sampling_process.command(plan), stdout=file, env=env, check=False)
    if done.returncode:
        raise TiresiasError(
            f"{out}: the measurement has ended with code {done.returncode}; the file has the samples before it"
        )
    return len(out.read_text().splitlines()) - 1
