"""Replay a trace through the scheduling core on a simulated cluster and compare policies.

Exact times, event by event, no randomness. Capacity only: a job runs equally fast wherever it sits, and preemption costs nothing
unless --preemption-cost says so. The trace is a CSV file, gzip or not, with the header
job_id,submit_time,num_gpus,duration[,user,vc,model,status], times in seconds.

Policies: las (this product's), fifo (nobody overtakes), best_effort (FIFO with overtaking), srsf (knows durations in advance).

examples:
  tiresias simulate trace.csv --policy las,fifo --nodes 15 --gpus-per-node 4
  tiresias simulate trace.csv.gz --policy las --nodes 250 --gpus-per-node 8 --threshold 3600,36000 --json out.json
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tiresias.errors import TiresiasError, UsageError
from tiresias.scheduler.config import ORDERS, PolicyConfig
from tiresias.scheduler.policies import CLAIRVOYANT, POLICIES
from tiresias.scheduler.policy import Policy
from tiresias.simulator.cluster import Cluster
from tiresias.simulator.engine import Outcome, simulate
from tiresias.simulator.metrics import summary
from tiresias.simulator.rules import Cost, Rules
from tiresias.simulator.trace import Trace, read_trace

ALL_POLICIES: Mapping[str, Policy] = {**POLICIES, **CLAIRVOYANT}

ROWS = {  # key -> (what it is called, how it is printed)
    "mean_jct": ("mean JCT", "{:,.0f} s"),
    "median_jct": ("median JCT", "{:,.0f} s"),
    "p95_jct": ("95th percentile JCT", "{:,.0f} s"),
    "p99_jct": ("99th percentile JCT", "{:,.0f} s"),
    "mean_queueing": ("mean queueing", "{:,.0f} s"),
    "makespan": ("makespan", "{:,.0f} s"),
    "preemptions": ("preemptions", "{:,}"),
    "gpu_utilization": ("GPU utilization", "{:.1%}"),
    "jobs": ("jobs", "{:,}"),
    "wall_seconds": ("simulated in", "{:.1f} s"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    default = PolicyConfig.paper()
    parser.add_argument("trace", type=Path, metavar="TRACE.csv")
    parser.add_argument("--policy", required=True, metavar="P[,P...]", help=f"some of {', '.join(ALL_POLICIES)}")
    parser.add_argument("--nodes", type=int, required=True, metavar="N")
    parser.add_argument("--gpus-per-node", type=int, required=True, metavar="G")
    parser.add_argument(
        "--threshold", type=_numbers, default=default.thresholds, metavar="S[,S...]",
        help=f"GPU-seconds at which a job sinks one queue (default: {default.thresholds[0]:g})",
    )  # fmt: skip
    parser.add_argument("--in-queue-order", choices=ORDERS, default=default.in_queue_order)
    parser.add_argument(
        "--promote-knob", type=float, default=math.inf, metavar="X",
        help="promote a job that has waited X times longer than it ran (default: never)",
    )  # fmt: skip
    parser.add_argument(
        "--preemption-cost", type=float, default=0.0, metavar="SECONDS",
        help="a preempted job holds its GPUs so much longer, without progress (default: 0)",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there")
    parser.add_argument("--jobs-out", type=Path, metavar="FILE", help="write a CSV with a line per policy and job")


def run(args: argparse.Namespace) -> int:
    cluster, rules = _cluster(args), _rules(args)
    trace = read_trace(args.trace, cluster.gpus)
    outcomes: dict[str, Outcome] = {}
    summaries: dict[str, dict[str, float]] = {}
    for name, each in rules.items():
        began = time.perf_counter()
        outcomes[name] = _simulate(name, trace, cluster, each)
        summaries[name] = summary(trace, cluster, outcomes[name], time.perf_counter() - began)
    if args.json:
        _write(args.json, json.dumps(_report(args, summaries), indent=2) + "\n")
    if args.jobs_out:
        _write(args.jobs_out, _job_lines(trace, outcomes))
    Console().print(_table(args, summaries))
    return 0


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(each) for each in text.split(","))


def _cluster(args: argparse.Namespace) -> Cluster:
    for option in ("nodes", "gpus_per_node"):
        if getattr(args, option) < 1:
            raise UsageError(f"--{option.replace('_', '-')} {getattr(args, option)}: give a whole number above 0")
    return Cluster(args.nodes, args.gpus_per_node)


def _rules(args: argparse.Namespace) -> dict[str, Rules]:
    config = replace(
        PolicyConfig.paper(), thresholds=args.threshold, in_queue_order=args.in_queue_order,
        promote_knob=args.promote_knob,
    )  # fmt: skip
    if not 0 <= args.preemption_cost < math.inf:
        raise UsageError(f"--preemption-cost {args.preemption_cost:g}: give seconds, 0 or more")
    rules = {}
    for name in args.policy.split(","):
        if name not in ALL_POLICIES:
            raise UsageError(f"--policy {name}: no such policy; there are {', '.join(ALL_POLICIES)}")
        rules[name] = Rules(ALL_POLICIES[name], config, Cost(resume=args.preemption_cost))
    return rules


def _simulate(name: str, trace: Trace, cluster: Cluster, rules: Rules) -> Outcome:
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=len(trace))
        return simulate(trace, cluster, rules, lambda done: progress.update(task, completed=done))


def _report(args: argparse.Namespace, summaries: Mapping[str, dict[str, float]]) -> dict[str, object]:
    return {
        "policies": summaries, "trace": args.trace.name, "nodes": args.nodes, "gpus_per_node": args.gpus_per_node,
        "thresholds": list(args.threshold), "in_queue_order": args.in_queue_order,
        "preemption_cost": args.preemption_cost,
    }  # fmt: skip


def _job_lines(trace: Trace, outcomes: Mapping[str, Outcome]) -> str:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("policy", "job_id", "start", "finish", "jct", "preemptions"))
    for name, outcome in outcomes.items():
        columns = (outcome.start, outcome.finish, outcome.jct, outcome.preemptions)
        lines.writerows(
            (name, *cells) for cells in zip(trace.job_id, *(column.tolist() for column in columns), strict=True)
        )
    return text.getvalue()


def _write(file: Path, text: str) -> None:
    """All of it or nothing."""
    part = file.with_name(f".{file.name}.part")
    try:
        part.write_text(text)
        part.replace(file)
    except OSError as error:
        raise TiresiasError(f"{file}: cannot be written: {error.strerror}") from error


def _table(args: argparse.Namespace, summaries: Mapping[str, dict[str, float]]) -> Table:
    cost = f"{args.preemption_cost:g} s" if args.preemption_cost else "nothing"
    title = f"{args.trace.name} on {args.nodes} x {args.gpus_per_node} GPUs; a preemption costs {cost}"
    table = Table("", title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for name in summaries:
        table.add_column(name, justify="right", no_wrap=True)
    for key, (what, form) in ROWS.items():
        table.add_row(what, *(form.format(each[key]) for each in summaries.values()))
    baseline = next(iter(summaries))
    for key in ("mean_jct", "median_jct", "p95_jct") if len(summaries) > 1 else ():
        table.add_row(f"{ROWS[key][0]} / {baseline}", *_ratios(summaries.values(), key))
    return table


def _ratios(summaries: Collection[Mapping[str, float]], key: str) -> list[str]:
    base = next(iter(summaries))[key]
    return [f"{each[key] / base:.2f}" if base else "" for each in summaries]
