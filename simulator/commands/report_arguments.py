"""The options of `tiresias simulate` on progress reports."""

from __future__ import annotations

import argparse

from tiresias.simulator.commands import argument_types as types
from tiresias.simulator.reporting import Reporting
from tiresias.simulator.trace import Trace


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options."""
    group.add_argument(
        "--reporting", type=types.share("--reporting"), metavar="SHARE",
        help="this share of the jobs, 0 to 1, reports its progress, which adaptive uses (default: the jobs with total_steps in the "
        "trace)",
    )  # fmt: skip
    group.add_argument(
        "--report-error", type=types.factor("--report-error"), default=1.0, metavar="FACTOR",
        help="the total that a job claims is wrong by a factor between 1/FACTOR and FACTOR (default: 1)",
    )  # fmt: skip
    group.add_argument(
        "--liars", type=types.share("--liars"), default=0.0, metavar="SHARE",
        help="this share of the jobs always claims a tenth of what is left (default: 0)",
    )  # fmt: skip
    group.add_argument(
        "--report-seed", type=types.whole_number("--report-seed"), default=1, metavar="N",
        help="seed of the reports (default: 1)",
    )  # fmt: skip


def reporting(args: argparse.Namespace, trace: Trace) -> Reporting | None:
    """Return which jobs report; None: none of them."""
    if args.reporting is None and not args.liars and not len(trace.claimed_total):
        return None
    return Reporting(args.reporting, args.report_error, args.liars, args.report_seed)
