"""What the cluster's own jobs would have had under Tiresias: a replay of its accounting, before anything is installed.

Job completion times by size, user and partition, preemptions, GPUs used, and who loses, under a policy like the present one and
under ours. Where accounting tells when jobs ended, the replay of the present policy is set beside that, so that you see how far
replays can be believed for your site.

Without TRACE the accounting of the cluster at hand is read (sacct, scontrol): only what this user may see of it.

examples:
  tiresias whatif                                            the last 90 days of this cluster
  tiresias whatif --since 2026-09-01 --partition gpu --html report.html
  tiresias whatif dump.txt --nodes 30 --gpus-per-node 8      of sacct -P --duplicates, or any trace of tiresias simulate
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tiresias.scheduler.config import PolicyConfig
from tiresias.simulator.commands import arguments
from tiresias.simulator.experiments import whatif
from tiresias.simulator.views import forecast, output, report

OURS = PolicyConfig.paper(cluster="production")


def configure(parser: argparse.ArgumentParser) -> None:
    arguments.configure_history(parser)
    arguments.configure_threshold(parser, OURS)
    parser.add_argument(
        "--present", choices=("best_effort", "fifo"), default="best_effort",
        help="the present policy: who does not fit is overtaken, as with backfill, or is not (default: %(default)s)",
    )  # fmt: skip
    arguments.configure_ours(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="all the numbers")
    parser.add_argument("--html", type=Path, metavar="FILE", help="one file with tables and plots, to be passed around")


def run(args: argparse.Namespace) -> int:
    output.check(file for file in (args.json, args.html) if file)
    setup = arguments.history(args, replace(OURS, thresholds=args.threshold))
    found = whatif.forecast(setup, args.present, args.policy)
    files: dict[Path, output.Content] = {}
    if args.json:
        files[args.json] = report.as_text(forecast.as_json(found))
    if args.html:
        files[args.html] = forecast.as_html(found)
    output.write(files)
    console = Console(highlight=False, markup=False)
    for part in (
        report.headline(setup),
        *report.dropped_lines(setup.trace),
        *forecast.tables(found),
        *forecast.words(found),
    ):
        console.print(part)
    return 0
