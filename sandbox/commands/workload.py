"""Print the workload of the paper's testbed as a trace, or any number of jobs in the same proportions.

Examples:
  tiresias sandbox workload > testbed.csv
  tiresias sandbox workload --jobs 120 --seed 7 --short-shape 3 --long-shape 0.75
"""

from __future__ import annotations

import argparse
import csv
import sys
from dataclasses import astuple

from tiresias.errors import UsageError
from tiresias.sandbox.workload import INTERARRIVAL, generate
from tiresias.simulator.trace import OPTIONAL, REQUIRED


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=480, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="default: %(default)s")
    parser.add_argument(
        "--interarrival",
        type=float,
        default=INTERARRIVAL,
        metavar="SECONDS",
        help="mean, of a Poisson process (default: %(default)s)",
    )
    parser.add_argument(
        "--short-shape", type=float, default=1.0, metavar="A", help="Pareto shape below 800 s (default: %(default)s)"
    )
    parser.add_argument(
        "--long-shape", type=float, default=1.0, metavar="A", help="Pareto shape above (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    for name in ("jobs", "interarrival", "short_shape", "long_shape"):
        if not 0 < getattr(args, name) < float("inf"):
            raise UsageError(f"--{name.replace('_', '-')} is {getattr(args, name)}: it must be above 0")
    jobs = generate(
        args.jobs, args.seed, interarrival=args.interarrival, short_shape=args.short_shape, long_shape=args.long_shape
    )
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(REQUIRED + OPTIONAL)
    for job in jobs:
        out.writerow(f"{value:g}" if isinstance(value, float) else value for value in astuple(job))
    return 0
