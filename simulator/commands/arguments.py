"""The options of `tiresias simulate`, `whatif` and `tune`, and their values. An impossible value is a UsageError in one line."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tiresias.errors import UsageError
from tiresias.scheduler.admit.rules import ADMISSION
from tiresias.scheduler.config import FAIRNESS, ORDERS, PolicyConfig
from tiresias.scheduler.evict.eviction import EVICTIONS
from tiresias.scheduler.size.sizing import SIZINGS
from tiresias.scheduler.tenants.tenant_rules import TENANT_RULES
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.commands import argument_types as types
from tiresias.simulator.commands import (
    fairness_arguments,
    learning_arguments,
    memory_arguments,
    network_arguments,
    node_speed_arguments,
    prediction_arguments,
    preset_arguments,
    report_arguments,
    tenant_arguments,
    weights_arguments,
)
from tiresias.simulator.elastic.speed_file import read_speeds, with_speeds
from tiresias.simulator.experiments.experiment import ALL_POLICIES, Setup, read
from tiresias.simulator.experiments.sensitivity import KNOBS, POLICIES
from tiresias.simulator.failures import Exponential
from tiresias.simulator.formats import FORMATS, cells
from tiresias.simulator.formats.table import Layout, read_table
from tiresias.simulator.formats.trace_file import opened
from tiresias.simulator.simulated_placement import PACKLIMIT, STYLES, WAIT_LIMIT_S, SimulatedPlacement
from tiresias.simulator.simulation_rules import FREE, Cost

DEFAULT = PolicyConfig.paper()

Value = TypeVar("Value")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `simulate`."""
    configure_trace(parser)
    parser.add_argument("--policy", type=types.policies, metavar="P[,P...]", help=f"some of {', '.join(ALL_POLICIES)}")
    preset_arguments.configure(parser)
    parser.add_argument(
        "--speeds", type=Path, metavar="FILE.csv",
        help="measured speeds of the models of elastic jobs, header model,gpus,nodes,steps_per_second[,servers,batch]; without it "
        "an elastic job is twice as fast on twice the GPUs",
    )  # fmt: skip
    parser.add_argument(
        "--by-node",
        action="store_true",
        help="place each job on nodes, as the controller does; without it only the number of GPUs counts (faster)",
    )
    parser.add_argument(
        "--interval",
        type=types.seconds("--interval"),
        metavar="SECONDS",
        help="decide only at multiples of it; 0: whenever something happens (default: as the preset states, else 0)",
    )
    _configure_policy(parser.add_argument_group("the policy"))
    _configure_cost(parser.add_argument_group("what a preemption costs"))
    _configure_failures(parser.add_argument_group("failures of nodes"))
    _configure_placement(parser.add_argument_group("placement"))
    memory_arguments.configure(parser.add_argument_group("memory"))
    network_arguments.configure(parser.add_argument_group("jobs that slow each other"))
    tenant_arguments.configure(parser.add_argument_group("tenants"))
    report_arguments.configure(parser.add_argument_group("progress reports"))
    prediction_arguments.configure(parser.add_argument_group("predictions of elastic jobs"))
    _configure_results(parser.add_argument_group("results"))
    _configure_experiments(parser.add_argument_group("experiments of the paper"))


def configure_threshold(parser: argparse.ArgumentParser, present: PolicyConfig) -> None:
    """Add --threshold with the present setting as the default."""
    parser.add_argument(
        "--threshold",
        type=types.thresholds,
        default=present.thresholds,
        metavar="S[,S...]",
        help=f"GPU-seconds at which a job sinks one queue (default: {present.thresholds[0]:g})",
    )


def configure_alternatives(parser: argparse.ArgumentParser) -> None:
    """Add --policy with the policies that are compared by default."""
    parser.add_argument(
        "--policy",
        type=types.policies,
        default=("adaptive", "las"),
        metavar="P[,P...]",
        help="instead of the present one (default: adaptive,las)",
    )


def configure_trace(parser: argparse.ArgumentParser) -> None:
    """Add the trace and the size of the cluster."""
    parser.add_argument("trace", type=Path, nargs="?", metavar="TRACE")
    parser.add_argument(
        "--format",
        type=types.one_of("--format", ("auto", *FORMATS)),
        default="auto",
        metavar="F",
        help=f"of the trace: auto (default: by its first line), {', '.join(FORMATS)}",
    )
    parser.add_argument("--nodes", type=types.whole_number("--nodes"), metavar="N")
    parser.add_argument("--gpus-per-node", type=types.whole_number("--gpus-per-node"), metavar="G")


def _configure_policy(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--threshold", type=types.thresholds, metavar="S[,S...]",
        help=f"GPU-seconds at which a job sinks one queue (default: {DEFAULT.thresholds[0]:g}); '' for one queue only",
    )  # fmt: skip
    group.add_argument(
        "--in-queue-order", type=types.one_of("--in-queue-order", ORDERS), default=DEFAULT.in_queue_order, metavar="O",
        help=f"{', '.join(ORDERS)} (default: {DEFAULT.in_queue_order})",
    )  # fmt: skip
    group.add_argument(
        "--promote-knob", type=types.number("--promote-knob"), default=math.inf, metavar="X",
        help="promote a job that has waited X times longer than it ran (default: never)",
    )  # fmt: skip
    group.add_argument(
        "--starve-limit", type=types.number("--starve-limit"), default=math.inf, metavar="SECONDS",
        help="promote a job that has waited so long since it ran (default: never)",
    )  # fmt: skip
    group.add_argument(
        "--min-run", type=types.number("--min-run"), default=DEFAULT.min_run, metavar="SECONDS",
        help="a job runs so long before it may be preempted (default: 0)",
    )  # fmt: skip
    group.add_argument(
        "--quantum", type=types.number("--quantum"), default=DEFAULT.quantum, metavar="SECONDS",
        help=f"a turn of time_sharing (default: {DEFAULT.quantum:g})",
    )  # fmt: skip
    learning_arguments.configure(group)
    fairness_arguments.configure(group)
    group.add_argument(
        "--admission", type=types.one_of("--admission", (*ADMISSION, *TENANT_RULES)), default="shared", metavar="RULE",
        help=f"{', '.join((*ADMISSION, *TENANT_RULES))}: which jobs may hold GPUs (default: shared)",
    )  # fmt: skip
    group.add_argument(
        "--sizing", type=types.one_of("--sizing", tuple(SIZINGS)), default="fixed", metavar="SIZING",
        help=f"{', '.join(SIZINGS)}: the GPUs of a job when it first starts; a job does the same work on fewer GPUs in "
        "proportionally more time (default: fixed)",
    )  # fmt: skip
    group.add_argument(
        "--eviction", type=types.one_of("--eviction", tuple(EVICTIONS)), default="by_policy", metavar="EVICTION",
        help=f"{', '.join(EVICTIONS)}: which running jobs release GPUs (default: by_policy)",
    )  # fmt: skip


def _configure_cost(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--preemption-cost", type=types.cost, default=FREE, metavar="SECONDS|PAUSE,RESUME",
        help="a preempted job keeps its GPUs PAUSE seconds, and works RESUME seconds after its next start only; a single number "
        "is all RESUME (default: 0)",
    )  # fmt: skip
    group.add_argument(
        "--preemption-costs", type=Path, metavar="FILE.csv",
        help="costs of some models, in place of that one; header model,pause,resume",
    )  # fmt: skip


def _configure_failures(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--mtbf", type=types.seconds("--mtbf"), default=0.0, metavar="SECONDS",
        help="mean time between two failures of a node; means --by-node (default: none fails)",
    )  # fmt: skip
    group.add_argument(
        "--repair", type=types.seconds("--repair"), default=3600.0, metavar="SECONDS",
        help="mean time that a node is down (default: 3600)",
    )  # fmt: skip
    group.add_argument(
        "--checkpoint-interval", type=types.seconds("--checkpoint-interval"), default=0.0, metavar="SECONDS",
        help="work between two checkpoints of a job, to the last of which a failure throws it back (default: 0, nothing is lost)",
    )  # fmt: skip
    group.add_argument(
        "--failure-seed",
        type=types.whole_number("--failure-seed"),
        default=1,
        metavar="N",
        help="seed of the failures (default: 1)",
    )


def _configure_placement(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--placement", type=types.one_of("--placement", STYLES), metavar="STYLE",
        help=f"{', '.join(STYLES)}: the placement of jobs on nodes, which slows models with large tensors down; the models are "
        "those of the trace's column model; means --by-node (default: all GPUs are equal)",
    )  # fmt: skip
    group.add_argument(
        "--packlimit", type=types.share("--packlimit"), default=PACKLIMIT, metavar="X",
        help=f"skew: models whose largest tensor is more than X of them consolidate (default: {PACKLIMIT})",
    )  # fmt: skip
    weights_arguments.configure(group)
    node_speed_arguments.configure(group)
    group.add_argument(
        "--patience", type=types.seconds("--patience"), default=WAIT_LIMIT_S, metavar="SECONDS",
        help=f"skew: these wait so long for the fewest nodes (default: {WAIT_LIMIT_S:g})",
    )  # fmt: skip
    group.add_argument(
        "--defragment", type=types.whole_number("--defragment"), default=0, metavar="N",
        help="skew: up to N other jobs are preempted at once where such a job gets its nodes sooner by that (default: 0)",
    )  # fmt: skip


def _configure_results(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--json", type=Path, metavar="FILE", help="the results")
    group.add_argument(
        "--by-virtual-cluster", action="store_true",
        help="the results of each virtual cluster too (the trace's column vc), in a table and in --json",
    )  # fmt: skip
    group.add_argument(
        "--owners", type=types.one_of("--owners", FAIRNESS[1:]), metavar="KIND",
        help=f"{', '.join(FAIRNESS[1:])}: how equally these are served, in a table and in --json; accounts: column vc where the "
        "trace has none (default: those of --fairness)",
    )  # fmt: skip
    group.add_argument("--jobs-out", type=Path, metavar="FILE", help="a CSV with a line per policy and job")
    group.add_argument(
        "--series", type=Path, metavar="FILE",
        help="a CSV of the cluster over time: GPUs in use, jobs that run and wait, a line per policy and step",
    )  # fmt: skip
    group.add_argument(
        "--plot", type=Path, metavar="DIR",
        help="JCT distribution, utilization and queue over time, as PNG and SVG; needs matplotlib",
    )  # fmt: skip


def _configure_experiments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--sensitivity", type=types.one_of("--sensitivity", tuple(KNOBS)), metavar="KNOB",
        help=f"{', '.join(KNOBS)}: run the policies (default: {','.join(POLICIES)}) over a range of it (Figures 14 and 15). The "
        "first --threshold is the range's unit (default: 1 hour)",
    )  # fmt: skip
    group.add_argument(
        "--reproduce-paper",
        action="store_true",
        help="no TRACE: compare every result of Tables 1, 4 and 5 and of sections 5.2 and 5.3.1 with the simulated one",
    )
    group.add_argument(
        "--traces",
        type=Path,
        metavar="DIR",
        help="holds philly_full.csv.gz; without it a load like Philly's is generated",
    )


def setup(args: argparse.Namespace) -> Setup:
    """Return the setup of `simulate`, with the contents of the files that the options name."""
    costs = _read_costs(args.preemption_costs) if args.preemption_costs else {}
    cluster = network_arguments.cluster_of(args, lambda: _equal_nodes(args))
    contention = network_arguments.contention(args)
    file: Path = needed(args.trace, "TRACE")
    declared = tenant_arguments.declared(args, cluster)
    tenants = declared.shared_by(args.admission) if declared else None
    config, trace = _config(args), read(file, cluster.gpus, args.format)
    trace = declared.assigned(trace) if declared else trace
    if args.speeds:
        trace = with_speeds(trace, read_speeds(args.speeds), args.speeds)
    failures = _failures(args)
    placement = SimulatedPlacement.named(args.placement, args.packlimit, args.patience) if args.placement else None
    if (trained := weights_arguments.trained(args, cluster.topology())) and placement:
        placement = replace(placement, trained=trained)
    if (speeds := node_speed_arguments.node_speeds(args, cluster)) and placement:
        placement = replace(placement, speeds=speeds)
    memory = memory_arguments.simulated_memory(args, trace)
    by_node = args.by_node or bool(
        failures or placement or tenants or args.nodes_per_leaf or args.sockets_per_node > 1 or contention or memory
    )
    return Setup(
        file.name, trace, cluster, config, args.preemption_cost, costs, by_node, args.interval, failures,
        args.checkpoint_interval, placement, report_arguments.reporting(args, trace), learning_arguments.completed(args),
        tenants, prediction_arguments.measurements(args), fairness_arguments.shares(args), contention, memory,
    )  # fmt: skip


def _equal_nodes(args: argparse.Namespace) -> ClusterSize:
    nodes, gpus = needed(args.nodes, "--nodes N"), needed(args.gpus_per_node, "--gpus-per-node G")
    return ClusterSize(nodes, gpus, args.nodes_per_leaf, args.sockets_per_node)


def needed(value: Value | None, option: str) -> Value:
    """Return the value. Raises UsageError for None, which stands for an option that was not given."""
    if value is None:
        raise UsageError(f"{option} is missing; --help describes it")
    return value


def _config(args: argparse.Namespace) -> PolicyConfig:
    thresholds = DEFAULT.thresholds if args.threshold is None else args.threshold
    admission = "shared" if args.admission in TENANT_RULES else args.admission  # within each tenant
    return replace(
        DEFAULT, thresholds=thresholds, in_queue_order=args.in_queue_order, promote_knob=args.promote_knob,
        starve_limit=args.starve_limit, min_run=args.min_run, quantum=args.quantum, target_slowdown=args.target_slowdown,
        starve_factor=args.starve_factor,
        defragment=args.defragment, admission=admission, sizing=args.sizing, eviction=args.eviction,
        size_samples=args.size_samples, sample_time=args.sample_time, **fairness_arguments.options(args),
    )  # fmt: skip


def _failures(args: argparse.Namespace) -> Exponential | None:
    if not args.mtbf:
        return None
    if not args.repair:
        raise UsageError("--repair 0: a node that fails is down for a while; give seconds above 0")
    return Exponential(args.mtbf, args.repair, args.failure_seed)


def _read_costs(file: Path) -> dict[str, Cost]:
    """By model."""
    seconds = {"pause": cells.seconds, "resume": cells.seconds}
    with opened(file, lambda rows: None) as source:
        table = read_table(source, Layout(numbers=seconds, words={"model": cells.words}, closed=True))
    models = table.words["model"]
    again = next((model for place, model in enumerate(models) if model in models[:place]), None)
    if again is not None:
        raise UsageError(f"{file}: model {again[:40]!r} occurs twice; remove one")
    pairs = zip(table.numbers["pause"].tolist(), table.numbers["resume"].tolist(), strict=True)
    return {model: Cost(*pair) for model, pair in zip(models, pairs, strict=True)}
