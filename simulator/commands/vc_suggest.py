"""The cells that each tenant needs for a target waiting time, from a site's accounting or a trace.

Each tenant's jobs are simulated alone, in private clusters of different sizes, and the smallest one that meets the target is
taken: of all its jobs, the given percentage waits no longer than --target-wait. A wait is all time without progress, before the
first start and after preemptions. Where a tenant has jobs of several nodes and --nodes-per-leaf is given, nodes are merged to leaf
cells, so that these jobs get nodes under one switch. If the cells of all tenants do not fit into the cluster, the obstacle is
shown, and nodes are taken away from the tenants whose waits grow the least.

--hold-out checks the suggestion on jobs that it was not made from: cells from the first half of the time, waits in the second half.

Without TRACE the accounting of the local cluster is read (sacct, scontrol): only what this user may see of it.

examples:
  tiresias vc suggest --target-wait 1h --percentile 95 --out vcs.toml      by account, the last 90 days of this cluster
  tiresias vc suggest --by partition --tenant gpu,debug --nodes-per-leaf 4
  tiresias vc suggest dump.txt --nodes 30 --gpus-per-node 8 --target-wait 30m --hold-out shared
  tiresias vc suggest philly.csv.gz --by vc --nodes 60 --gpus-per-node 8 --nodes-per-leaf 4 --json out.json
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator.commands import argument_types as types
from tiresias.simulator.commands import arguments, history_arguments, tenant_arguments
from tiresias.simulator.experiments.cell_suggestion import BY, Question, Suggestion, suggest, tenants_of
from tiresias.simulator.experiments.held_out import HeldOut, halves, held_out
from tiresias.simulator.experiments.private_size import WaitTarget
from tiresias.simulator.trace import Trace
from tiresias.simulator.views import cell_suggestion_tables as view
from tiresias.simulator.views import output
from tiresias.simulator.views import simulate as simulate_view
from tiresias.simulator.views.wide_tables import in_parts

HOLD_OUT = ("private", "shared")
DEFAULT_CONFIG = PolicyConfig.paper(cluster="production")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    history_arguments.configure(parser)
    arguments.configure_threshold(parser, DEFAULT_CONFIG)
    tenant_arguments.configure_leaves(parser)
    parser.add_argument(
        "--by", type=types.one_of("--by", BY), default="account", metavar="KEY",
        help=f"{', '.join(BY)}: what a tenant is; vc: the trace's column vc (default: account)",
    )  # fmt: skip
    parser.add_argument(
        "--tenant", type=types.words, default=(), metavar="NAME[,NAME...]", help="only these (default: all)"
    )
    parser.add_argument(
        "--target-wait", type=types.span("--target-wait"), default=3600.0, metavar="TIME",
        help="the longest wait, such as 90m, 1h or 2d (default: 1h)",
    )  # fmt: skip
    parser.add_argument(
        "--percentile", type=types.percentile("--percentile"), default=95.0, metavar="P",
        help="the percentage of a tenant's jobs that wait no longer (default: 95)",
    )  # fmt: skip
    parser.add_argument(
        "--policy", type=types.one_of("--policy", tuple(POLICIES)), default="adaptive", metavar="P",
        help="the order of each tenant's jobs (default: adaptive)",
    )  # fmt: skip
    parser.add_argument(
        "--hold-out", type=types.one_of("--hold-out", HOLD_OUT), metavar="HOW",
        help="cells from the first half of the time, and waits in the second half too; private: in private clusters; shared: also "
        "in virtual clusters, which takes much longer",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, metavar="FILE.toml", help="the [[virtual_cluster]] tables, for the configuration"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="the results")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    output.check(file for file in (args.json, args.out) if file)
    question, later = _asked(args)
    found = suggest(question)
    checked = held_out(found, args.by, later, shared=args.hold_out == "shared") if later else None
    _write(args, found, checked)
    console = Console(highlight=False, markup=False, emoji=False)
    headline, dropped = simulate_view.headline(question.setup), simulate_view.dropped_lines(question.setup.trace)
    tables = (part for table in view.tables(found, checked) for part in in_parts(table, console.width))
    for part in (headline, *dropped, *tables, *view.words(found, checked)):
        console.print(part)
    return 0


def _asked(args: argparse.Namespace) -> tuple[Question, Trace | None]:
    """Return the question, and the jobs that are held out."""
    config = replace(DEFAULT_CONFIG, thresholds=args.threshold, name=args.policy)
    setup = history_arguments.setup(args, config, equal_nodes=True)
    setup = replace(setup, cluster=replace(setup.cluster, nodes_per_leaf=args.nodes_per_leaf))
    first, later = halves(setup.trace) if args.hold_out else (setup.trace, None)
    asked = Question(
        replace(setup, trace=first), tenants_of(first, args.by, args.tenant), args.policy,
        WaitTarget(args.target_wait, args.percentile),
    )  # fmt: skip
    return asked, later


def _write(args: argparse.Namespace, found: Suggestion, checked: HeldOut | None) -> None:
    files: dict[Path, output.Content] = {}
    if args.out:
        files[args.out] = view.as_toml(found, args.by)
    if args.json:
        files[args.json] = simulate_view.as_text(view.as_json(found, args.by, checked))
    output.write(files)
