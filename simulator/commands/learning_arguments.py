"""The options of `tiresias simulate` on policies that learn: what they learned before, and how `adaptive` uses it."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.completed_jobs import NO_JOBS_COMPLETED, Completed
from tiresias.simulator.commands import argument_types as types
from tiresias.simulator.experiments.experiment import read
from tiresias.simulator.history import completed_jobs


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options."""
    group.add_argument(
        "--target-slowdown", type=types.number("--target-slowdown"), default=math.inf, metavar="X",
        help="adaptive ranks by submission and X times the expected time to completion (default: by that time alone)",
    )  # fmt: skip
    group.add_argument(
        "--starve-factor", type=types.number("--starve-factor"), default=PolicyConfig.starve_factor, metavar="X",
        help="under adaptive each --starve-limit of waiting lowers the cost of a job X times (default: 2; inf: it goes first)",
    )  # fmt: skip
    group.add_argument(
        "--history", type=Path, metavar="TRACE",
        help="adaptive and gittins have learned from the jobs of this trace before the first job arrives (default: nothing)",
    )  # fmt: skip


def completed(args: argparse.Namespace) -> Completed:
    """Return the jobs of `--history`, of any size."""
    return completed_jobs(read(args.history, None, "auto")) if args.history else NO_JOBS_COMPLETED
