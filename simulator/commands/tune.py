"""The best settings for a site's own jobs, from its accounting or a trace, and the gain that they would have had.

Chosen walk-forward: the setting tried on a week was chosen by the weeks before it, so the site would have had the gain, and its
range over the weeks shows its uncertainty. The present setting is the paper's (two queues, 1 h of GPU time) or --threshold; it
stays as long as no other was better without ever being worse.

Without TRACE the accounting of the local cluster is read (sacct, scontrol): only what this user may see of it.

examples:
  tiresias tune                                            the last 90 days of this cluster
  tiresias tune --cluster second                           another cluster of the same slurmdbd
  tiresias tune dump.txt --nodes 250 --gpus-per-node 8     as of tiresias whatif: sacct's, or a trace
  tiresias tune philly_full.csv.gz --nodes 250 --gpus-per-node 8 --preemption-cost 60 --json tuned.json
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tiresias.simulator.commands import arguments, history_arguments
from tiresias.simulator.experiments import tuning
from tiresias.simulator.views import output
from tiresias.simulator.views import simulate as simulate_view


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    history_arguments.configure(parser)
    arguments.configure_threshold(parser, tuning.present())
    parser.add_argument("--json", type=Path, metavar="FILE", help="the weeks, the gain and the proposal")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    output.check([args.json] if args.json else [])
    setup = history_arguments.setup(args, replace(tuning.present(), thresholds=args.threshold))
    found = tuning.tune(setup)
    if args.json:
        output.write({args.json: simulate_view.as_text(_as_json(found))})
    console = Console(highlight=False, markup=False, emoji=False)
    for part in (simulate_view.headline(setup), _table(found), "", *_words(found)):
        console.print(part)
    return 0


def _table(found: tuning.Tuned) -> Table:
    table = simulate_view.new_table("mean JCT of each week's jobs, times that of the present setting")
    for heading in ("jobs", "chosen by the weeks before", "JCT"):
        table.add_column(heading, justify="left" if heading.startswith("chosen") else "right", no_wrap=True)
    for week in found.weeks:
        table.add_row(f"week {week.number + 1}", f"{week.jobs:,}", week.chosen, f"{week.ratio:.3f}")
    return table


def _words(found: tuning.Tuned) -> Iterator[str]:
    low, high = found.spread
    yield f"Gain: JCT times {found.gain:.3f} over all these jobs; by week from {low:.3f} to {high:.3f}."
    yield f"Proposal ({found.recipe}), for /etc/tiresias/tiresias.toml:"
    yield ""
    yield "    [policy]"
    yield f'    name = "{found.proposal.name}"'
    if found.proposal.name != "adaptive":
        yield f"    thresholds = [{', '.join(f'{each:.1f}' for each in found.proposal.thresholds)}]"


def _as_json(found: tuning.Tuned) -> dict[str, object]:
    return {
        "gain": found.gain, "spread": found.spread, "median": statistics.median(week.ratio for week in found.weeks),
        "recipe": found.recipe, "proposal": {"name": found.proposal.name, "thresholds": list(found.proposal.thresholds)},
        "weeks": [
            {"week": week.number + 1, "jobs": week.jobs, "chosen": week.chosen, "ratio": week.ratio, "ratios": dict(week.ratios)}
            for week in found.weeks
        ],
    }  # fmt: skip
