"""Run a trace as real jobs on private clusters, one per policy, and compare their job completion times.

Policies: all that the controller runs, in its exact mode; slurm-fifo and slurm-backfill are unmodified Slurm with sched/builtin and
sched/backfill, where every job has twice its true duration as its time limit. adaptive+reports: the jobs report their progress, or
a share of them (--reporting). las+random: all jobs are placed in one style. With --virtual-clusters tenants share the cluster: by a
rule of the controller (las+virtual_clusters, las+gpu_quotas, las+private_clusters), or as Slurm has it (slurm-fairshare,
slurm-grptres, slurm-private); a second table has the waits of each tenant.

With --shares A,B the jobs belong to two accounts with these fair shares, and some are submitted in the QOS urgent; --other-jobs
adds CPU-only jobs and jobs that Tiresias does not manage. slurm-qos-requeue and slurm-qos-suspend: Slurm preempts for urgent jobs.

With +elastic after a policy of the controller its jobs are elastic, from a quarter of the GPUs of the trace to four times as many,
and with G GPUs (G / GPUs of the trace) ** --scaling times as fast.

All clusters run at the same time unless --sequential is given. Times in the tables are seconds of the trace: measured times
multiplied by the time scale. `simulated / measured`: the mean JCT of a simulation of the same jobs, charged with the measured
medians of starts and preemptions, over the measured one.

Examples:
  tiresias sandbox replay testbed480_seed1.csv --policy las,slurm-fifo
  tiresias sandbox replay trace.csv --policy slurm-fifo,slurm-backfill,las,adaptive,adaptive+reports --no-placement-effect
  tiresias sandbox replay trace.csv --policy las --jobs 60 --compress 3 --json out.json
  tiresias sandbox replay trace.csv --policy las,las+elastic --jobs 60 --compress 3 --no-placement-effect
  tiresias sandbox replay trace.csv --policy slurm-private,slurm-grptres,las+private_clusters,las+virtual_clusters \
    --virtual-clusters vcs.toml --nodes 12 --gpus-per-node 8 --nodes-per-leaf 2 --fewest-nodes
  tiresias sandbox replay trace.csv --policy slurm-backfill,slurm-qos-requeue,slurm-qos-suspend,assist,adaptive \
    --shares 3,1 --other-jobs 0.2 --seed 1 --no-placement-effect --json out.json
"""

from __future__ import annotations

import argparse
import json
import math
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tiresias.errors import UsageError
from tiresias.sandbox.replay import replay_report, setup, simulated, tenant_report
from tiresias.sandbox.replay.chaos import Faults
from tiresias.sandbox.replay.replay_policies import LABELS, SHOWN
from tiresias.sandbox.replay.replay_tenants import ReplayTenants
from tiresias.sandbox.replay.session import Outcome, available_suite, side_by_side
from tiresias.sandbox.replay.setup import Options
from tiresias.sandbox.replay.shared_site import SharedSite
from tiresias.sandbox.rootfs import SUITES
from tiresias.scheduler.stages import SIZINGS
from tiresias.simulator.commands import argument_types as types
from tiresias.simulator.reporting import Reporting
from tiresias.simulator.trace import TraceJob, read_trace

MAX_WIDTH = 1000  # cells: the terminal wraps a wide table, as a table with cut texts is harder to read


def configure(parser: argparse.ArgumentParser) -> None:
    default = Options()
    parser.add_argument(
        "trace",
        type=Path,
        metavar="TRACE.csv",
        help="header job_id,submit_time,num_gpus,duration[,user,vc,model,status]",
    )
    parser.add_argument(
        "--policy",
        required=True,
        metavar="P[,P...]",
        help=f"some of {', '.join(SHOWN)}; adaptive+reports: with reports; las+random: all in one placement; "
        "las+elastic: jobs change their size; "
        "las+virtual_clusters: with tenants",
    )
    parser.add_argument(
        "--reporting",
        type=types.share("--reporting"),
        default=1.0,
        metavar="SHARE",
        help="policies with +reports: this share of the jobs reports its progress, the same jobs as of tiresias simulate "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--report-seed", type=types.whole_number("--report-seed"), default=1, metavar="N",
        help="seed of their choice (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--sizing", choices=tuple(name for name in SIZINGS.built_in if name != "fixed"), default=default.sizing,
        help="policies with +elastic: how the GPUs of each job are found (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--scaling", type=types.share("--scaling"), default=0.8, metavar="A",
        help="speed of elastic jobs with g times their GPUs: g ** A (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--time-scale",
        type=float,
        default=default.time_scale,
        metavar="X",
        help="seconds of the trace per second (default: %(default)s)",
    )
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="only the first N")
    parser.add_argument(
        "--compress",
        type=float,
        default=1.0,
        metavar="X",
        help="divide the times between arrivals by X, so that a few jobs compete, too",
    )
    parser.add_argument("--nodes", type=int, default=default.nodes, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--gpus-per-node", type=int, default=default.gpus_per_node, metavar="N", help="default: %(default)s"
    )
    _configure_tenants(parser)
    _configure_site(parser)
    parser.add_argument(
        "--threshold",
        default=str(setup.THRESHOLD),
        metavar="S[,...]",
        help="las' queue limits, GPU-seconds of the trace (default: %(default)s)",
    )
    parser.add_argument(
        "--suite",
        choices=tuple(SUITES),
        default="",
        help="Debian suite, hence Slurm version (default: the first available one)",
    )
    parser.add_argument(
        "--placement-effect",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="jobs are slower on many nodes, by model; without it a replay is comparable with `simulate`",
    )
    parser.add_argument("--sequential", action="store_true", help="one policy after the other")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    parser.add_argument(
        "--sacct",
        type=Path,
        metavar="FOLDER",
        help="clusters with slurmdbd; write sacct's output on each policy's jobs to FOLDER/POLICY.txt, for `tiresias whatif`",
    )
    parser.add_argument(
        "--watch", action=argparse.BooleanOptionalAction, default=None, help="live view (default: on a terminal)"
    )
    parser.add_argument(
        "--kill-controller",
        type=int,
        default=0,
        metavar="N",
        help="SIGKILL it N times while jobs arrive, and restart it",
    )
    parser.add_argument(
        "--restart-slurmctld",
        type=int,
        default=0,
        metavar="N",
        help="stop and start slurmctld N times while jobs arrive",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="random seed of their times, and of the choices of --shares (default: %(default)s)",
    )
    parser.add_argument("--keep", action="store_true", help="keep the clusters' folders with logs and journals")


def _configure_tenants(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--virtual-clusters", type=Path, metavar="FILE.toml",
        help="[[virtual_cluster]] tables as of tiresias simulate; each becomes an account of Slurm, with the jobs whose vc it is",
    )  # fmt: skip
    parser.add_argument(
        "--nodes-per-leaf", type=types.whole_number("--nodes-per-leaf"), default=0, metavar="N",
        help="nodes under each leaf switch of the clusters' topology.conf (default: no topology)",
    )  # fmt: skip
    parser.add_argument(
        "--fewest-nodes", action="store_true",
        help="each job requests the fewest nodes that hold its GPUs (sbatch --nodes), as users do who need them together",
    )  # fmt: skip


def _configure_site(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shares", metavar="A,B",
        help="two accounts with these fair shares, priority/multifactor, QOS normal and urgent; users of the trace alternate",
    )  # fmt: skip
    parser.add_argument(
        "--urgent", type=types.share("--urgent"), default=0.2, metavar="SHARE",
        help="with --shares: share of the jobs in the QOS urgent, which ranks first (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--other-jobs", type=types.share("--other-jobs"), default=0.0, metavar="SHARE",
        help="with --shares: so many CPU-only jobs, and as many GPU jobs of another partition on the same nodes, for each job",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run the replay; the exit code is 1 if an invariant is violated, after the table is printed."""
    policies, options, console = list(dict.fromkeys(args.policy.split(","))), _options(args), Console(stderr=True)
    jobs = setup.take(read_trace(args.trace, options.gpus).jobs(), args.jobs, args.compress)
    if args.virtual_clusters:
        options = replace(options, tenants=ReplayTenants.read(args.virtual_clusters, options.size))
    trace_jobs = jobs
    if args.shares:
        site = SharedSite.of(jobs, _shares(args.shares), args.urgent, args.other_jobs, args.seed)
        jobs, options = site.with_others(jobs), replace(options, site=site)
    setup.check(policies, jobs, options.tenants, options.site)
    options = replace(options, suite=available_suite(args.suite, console))
    watch = console.is_terminal if args.watch is None else args.watch
    trouble = Faults(args.kill_controller, args.restart_slurmctld, args.seed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as for ctrl-C, the clusters are stopped at exit
    outcomes: dict[str, Outcome] = {}
    for group in [[name] for name in policies] if args.sequential else [policies]:
        outcomes |= side_by_side(group, jobs, options, console, watch=watch, keep=args.keep, trouble=trouble)
    _compare(outcomes, jobs, options, console)
    if args.sacct:
        _leave_accounting(outcomes, args.sacct)
    baseline = policies[0]
    longer = tenant_report.anomalies(outcomes, options.time_scale) if options.tenants else {}
    if args.json:
        args.json.write_text(json.dumps(_document(outcomes, baseline, args, longer), indent=2) + "\n")
    print(
        f"{len(trace_jobs)} jobs of {args.trace.name} on {options.nodes} nodes x {options.gpus_per_node} GPUs.", end=" "
    )
    print(f"Times are seconds of the trace: measured x {options.time_scale:g}.")
    _print_whole(replay_report.table(outcomes, baseline, LABELS))
    if options.tenants:
        _print_whole(tenant_report.table(outcomes, longer, LABELS))
    for line in (broken := replay_report.broken(outcomes)):
        console.print(f"BROKEN: {line}", style="bold red", highlight=False)
    return 1 if broken else 0


def _print_whole(table: Table) -> None:
    Console(width=max(Console().width, Console(width=MAX_WIDTH).measure(table).maximum)).print(table)


def _compare(outcomes: dict[str, Outcome], jobs: list[TraceJob], options: Options, console: Console) -> None:
    """Add the simulations of the replays, and the speed-ups."""
    for policy, outcome in outcomes.items():
        outcome |= simulated.compared(policy, jobs, options, outcome)
        if reason := simulated.not_simulated(policy, options):
            console.print(f"{policy}: not simulated: {reason}", highlight=False)
    for outcome in outcomes.values():
        if "unexplained_inversions" in outcome["invariants"]:
            outcome["unexplained_inversions"] = outcome["invariants"]["unexplained_inversions"]
    for policy, found in replay_report.speedups(outcomes).items():
        outcomes[policy] |= found


def _options(args: argparse.Namespace) -> Options:
    for name in ("time_scale", "compress", "nodes", "gpus_per_node"):
        if not (math.isfinite(value := getattr(args, name)) and value > 0):
            raise UsageError(f"--{name.replace('_', '-')} is {value}: it must be above 0")
    if args.jobs < 0:
        raise UsageError(f"--jobs is {args.jobs}: it must be 0 (all) or more")
    return Options(
        args.time_scale,
        args.nodes,
        args.gpus_per_node,
        thresholds=_thresholds(args.threshold),
        placement_effect=args.placement_effect,
        accounting=args.sacct is not None,
        reporting=Reporting(args.reporting, seed=args.report_seed),
        nodes_per_leaf=args.nodes_per_leaf,
        fewest_nodes=args.fewest_nodes,
        sizing=args.sizing,
        scaling=args.scaling if any(name.endswith("+elastic") for name in args.policy.split(",")) else 0.0,
    )


def _leave_accounting(outcomes: dict[str, Outcome], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for policy, outcome in outcomes.items():
        (folder / f"{policy}.txt").write_text(outcome.pop("sacct"))


def _thresholds(text: str) -> tuple[float, ...]:
    try:
        values = tuple(float(word) for word in text.split(","))
    except ValueError:
        values = ()
    if not values or any(not 0 < value < math.inf for value in values) or list(values) != sorted(set(values)):
        raise UsageError(f"--threshold {text!r}: write rising numbers of GPU-seconds such as 3200,32000")
    return values


def _shares(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9]\d{0,5}),([1-9]\d{0,5})", text, re.ASCII)
    if not match:
        raise UsageError(f"--shares {text!r:.40}: write two numbers from 1 to 999999, such as 3,1")
    return int(match[1]), int(match[2])


def _document(
    outcomes: dict[str, Outcome], baseline: str, args: argparse.Namespace, longer: dict[str, list[str]]
) -> dict[str, Any]:
    return {
        "trace": args.trace.name,
        "time_scale": args.time_scale,
        "compress": args.compress,
        **({"shares": args.shares, "urgent": args.urgent, "other_jobs": args.other_jobs} if args.shares else {}),
        "seed": args.seed,
        "policies": outcomes,
        "baseline": baseline,
        "ratios": replay_report.ratios(outcomes, baseline),
        **({"longer_than_private": longer} if longer else {}),
    }
