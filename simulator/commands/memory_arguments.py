"""The options on memory of `tiresias simulate`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace

from tiresias.errors import UsageError
from tiresias.simulator.commands import argument_types as types
from tiresias.simulator.experiments.experiment import Experiment
from tiresias.simulator.simulated_memory import SLOWDOWN, SimulatedMemory
from tiresias.simulator.trace import Trace

WITH_REMOTE = "{} + remote memory"


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options."""
    group.add_argument(
        "--node-memory", type=types.number("--node-memory"), default=0.0, metavar="GB",
        help="memory of each node; jobs need that of the trace's column memory (GB on all nodes together) or of --job-memory; "
        "means --by-node (default: memory does not count)",
    )  # fmt: skip
    group.add_argument(
        "--job-memory", type=_distribution, metavar="MEDIAN[,SIGMA]",
        help="GB for each GPU of a job, log-normal, for a trace without the column memory (default of SIGMA: 1)",
    )  # fmt: skip
    group.add_argument(
        "--remote-memory", type=types.number("--remote-memory"), default=0.0, metavar="SHARE",
        help="simulate each policy without and with remote memory: what exceeds a job's GPUs' part of a node, up to SHARE of its "
        "memory, comes from other nodes (default: 0)",
    )  # fmt: skip
    group.add_argument(
        "--remote-slowdown", type=types.number("--remote-slowdown"), default=SLOWDOWN, metavar="X",
        help=f"seconds that a second of work takes with half of the memory remote; grows linearly (default: {SLOWDOWN})",
    )  # fmt: skip


def _distribution(text: str) -> tuple[float, float]:
    check = types.number("--job-memory")
    parts = [check(part) for part in text.split(",")]
    if len(parts) > 2 or parts[0] <= 0:
        raise UsageError(f"--job-memory {text[:40]!r}: give a median above 0, and a sigma")
    return parts[0], parts[1] if len(parts) > 1 else 1.0


def simulated_memory(args: argparse.Namespace, trace: Trace) -> SimulatedMemory | None:
    """Return the memory of the simulation without remote memory; None: it does not count."""
    if not args.node_memory:
        if args.remote_memory or args.job_memory:
            raise UsageError("--remote-memory and --job-memory need the memory of a node; give --node-memory")
        return None
    if not args.job_memory and not len(trace.memory):
        raise UsageError("--node-memory: the trace has no column memory; add it, or give --job-memory")
    if not 0.0 <= args.remote_memory <= 0.9:
        raise UsageError(f"--remote-memory {args.remote_memory:g} is not possible; give a share from 0 to 0.9")
    if args.remote_slowdown < 1.0:
        raise UsageError(f"--remote-slowdown {args.remote_slowdown:g} is not possible; give 1 or more")
    median, sigma = args.job_memory or (0.0, 0.0)
    return SimulatedMemory(args.node_memory, median, sigma, slowdown=args.remote_slowdown)


def with_remote(args: argparse.Namespace, experiments: Mapping[str, Experiment]) -> dict[str, Experiment]:
    """Return the experiments, each followed by the same with remote memory where that is simulated."""
    found: dict[str, Experiment] = {}
    for name, each in experiments.items():
        found[name] = each
        if each.rules.memory and args.remote_memory:
            memory = replace(each.rules.memory, remote_share=args.remote_memory)
            found[WITH_REMOTE.format(name)] = replace(each, rules=replace(each.rules, memory=memory))
    return found
