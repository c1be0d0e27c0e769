"""Rules by which tenants share 96 GPUs, beside each other: queueing delay of each tenant, JCT and fragmentation; JSON.

    python bench/tenants.py TRACE [--loads 0.7 0.9 1.0] [--days 60] [--policy las fifo] [--json FILE]

The cluster has 12 nodes of 8 GPUs, two to a leaf switch. The tenants are the 11 named virtual clusters of the trace (Philly) with
the most jobs of these days, which are those with the most arrivals. The one with the most GPU time owns a leaf (`multi_level`) or
two nodes (`single_level`), each other one a node. Of each tenant, jobs are drawn until their load is `load`, or all: the load is in
the output. Jobs larger than what their tenant owns are left out, and counted. A preemption costs 62 s.

Of each run: mean and 99th percentile of each tenant's queueing delay, seconds; mean JCT, seconds; `fragmented`, the share of time
in which 8 GPUs or more are free, and no node has 8; `anomaly`, the tenants whose mean delay is longer than in private clusters.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Plan, Snapshot
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.rank.policy import Policy
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.outcome import Outcome
from tiresias.simulator.outcome_metrics import queueing
from tiresias.simulator.simulated_tenants import SimulatedTenants
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost, Rules
from tiresias.simulator.trace import Trace, TraceJob, read_trace

DAY, NODE, TENANTS = 86400.0, 8, 11
CLUSTER = ClusterSize(12, NODE, nodes_per_leaf=2)
COST = Cost(resume=62.0)
SINGLE, MULTI = "single_level", "multi_level"
RUNS = (
    ("private_clusters", SINGLE),
    ("gpu_quotas", SINGLE),
    ("virtual_clusters", SINGLE),
    ("virtual_clusters", MULTI),
)


@dataclass(frozen=True)
class Workload:
    """What the tenants submit at one load.

    Attributes:
        trace: The jobs.
        largest: The tenant that owns two nodes.
        left_out: Jobs that are larger than what their tenant owns.
    """

    trace: Trace
    largest: str
    left_out: int

    def owned(self, tenant: str) -> int:
        """Return the GPUs of a tenant."""
        return 2 * NODE if tenant == self.largest else NODE

    def load(self, days: float) -> dict[str, float]:
        """Return the load of each tenant: GPU time over the time of its GPUs."""
        service = defaultdict[str, float](float)
        for name, gpus, duration in zip(self.trace.vc, self.trace.gpus, self.trace.duration, strict=True):
            service[name] += gpus * duration
        return {name: service[name] / (self.owned(name) * days * DAY) for name in sorted(service)}

    def declared(self, levels: str) -> tuple[DeclaredTenant, ...]:
        """Return what each tenant owns."""
        two = DeclaredCells("leaf", 1) if levels == MULTI else DeclaredCells("node", 2)
        names = sorted(set(self.trace.vc))
        return tuple(
            DeclaredTenant(name, (two if name == self.largest else DeclaredCells("node", 1),)) for name in names
        )


@dataclass(frozen=True)
class Watched(SimulatedTenants):
    """Tenants whose decisions are recorded: the moment, and the free GPUs of each node from then on."""

    seen: list[tuple[float, npt.NDArray[np.float64]]] = field(default_factory=list)

    def decision(self, config: PolicyConfig) -> Callable[[Snapshot, Policy], Plan]:
        """Return the decision, which records what it sees."""
        decide = SimulatedTenants.decision(self, config)

        def watched(snapshot: Snapshot, policy: Policy) -> Plan:
            plan = decide(snapshot, policy)
            row = {name: at for at, name in enumerate(snapshot.nodes.name)}
            free = snapshot.nodes.free["gpus"].astype(np.float64)
            for name, gpus in (each for start in plan.starts for each in start.nodes):
                free[row[name]] -= gpus
            self.seen.append((snapshot.time, free))
            return plan

        return watched

    def fragmented(self, until: float) -> float:
        """Return the share of time in which a node's GPUs are free, and on no node together."""
        begin = np.array([moment for moment, _ in self.seen])
        free = np.array([each for _, each in self.seen])
        lasts = np.diff(np.minimum([*begin, until], until))
        scattered = (free.sum(axis=1) >= NODE) & (free.max(axis=1) < NODE)
        return float((lasts * scattered).sum() / lasts.sum())


def workload(trace: Trace, load: float, days: float, seed: int) -> Workload:
    """Draw the jobs of the tenants at a load. A smaller load has a part of the jobs of a larger one."""
    here = [job for job in _busiest(trace, days) if job.vc]
    jobs = Counter(job.vc for job in here)
    names = [name for name, _ in jobs.most_common(TENANTS)]
    service = defaultdict[str, float](float)
    for job in here:
        service[job.vc] += job.num_gpus * job.duration
    drawn = Workload(trace, max(names, key=lambda name: service[name]), 0)
    fit = [job for job in here if job.vc in names and job.num_gpus <= drawn.owned(job.vc)]
    too_large = sum(jobs[name] for name in names) - len(fit)
    chosen = [
        job
        for name in names
        for job in _drawn([job for job in fit if job.vc == name], load * drawn.owned(name) * days * DAY, seed)
    ]
    chosen.sort(key=lambda job: (job.submit_time, job.job_id))
    return replace(drawn, trace=Trace.of(chosen), left_out=too_large)


def _busiest(trace: Trace, days: float) -> list[TraceJob]:
    """Return the jobs of the days in a row with the most arrivals, which then begin at 0."""
    submit = np.sort(trace.submit)
    count = np.searchsorted(submit, submit + days * DAY) - np.arange(len(submit))
    begin = submit[int(count.argmax())]
    rows = np.flatnonzero((trace.submit >= begin) & (trace.submit < begin + days * DAY)).tolist()
    return [
        TraceJob(
            str(trace.job_id[row]), float(trace.submit[row] - begin), int(trace.gpus[row]), float(trace.duration[row]),
            vc=str(trace.vc[row]),
        )
        for row in rows
    ]  # fmt: skip


def _drawn(jobs: list[TraceJob], service: float, seed: int) -> list[TraceJob]:
    """Return jobs in a random order until they need so many GPU-seconds."""
    order = np.random.default_rng(seed).permutation(len(jobs))
    need = np.cumsum([jobs[at].num_gpus * jobs[at].duration for at in order])
    return [jobs[at] for at in order[: int(np.searchsorted(need, service)) + 1]]


def run(work: Workload, rule: str, levels: str, policy: str) -> dict[str, Any]:
    """Return the figures of one simulation."""
    tenants = Watched(rule, work.declared(levels))
    begin = time.perf_counter()
    outcome = simulate(
        work.trace, CLUSTER, Rules(POLICIES[policy], replace(PolicyConfig(), name=policy), COST, tenants=tenants)
    )
    jct = outcome.finish - work.trace.submit
    return {
        "rule": rule,
        "cells": levels,
        "policy": policy,
        "delay": _delays(work.trace, outcome),
        "mean_delay": float(queueing(work.trace, outcome).mean()),
        "mean_jct": float(jct.mean()),
        "preemptions": int(outcome.preemptions.sum()),
        "fragmented": tenants.fragmented(float(work.trace.submit.max())),
        "seconds": time.perf_counter() - begin,
    }


def _delays(trace: Trace, outcome: Outcome) -> dict[str, dict[str, float]]:
    waited, vc = queueing(trace, outcome), np.array(trace.vc)
    return {
        name: {"mean": float(waited[vc == name].mean()), "p99": float(np.percentile(waited[vc == name], 99))}
        for name in sorted(set(trace.vc))
    }


def anomaly(result: dict[str, Any], private: dict[str, Any]) -> list[str]:
    """Return the tenants that wait longer on average than in private clusters; a second more does not count."""
    return [name for name, own in result["delay"].items() if own["mean"] > private["delay"][name]["mean"] + 1.0]


def experiment(trace: Trace, loads: Iterable[float], policies: Iterable[str], days: float, seed: int) -> list[Any]:
    """Return the figures of all runs, by load and policy."""
    works = {load: workload(trace, load, days, seed) for load in loads}
    cases = [(load, policy, *each) for (load, policy), each in product(product(works, policies), RUNS)]
    with ProcessPoolExecutor() as pool:
        pending = [pool.submit(run, works[load], rule, levels, policy) for load, policy, rule, levels in cases]
        done = [{"load": case[0], **each.result()} for case, each in zip(cases, pending, strict=True)]
    for result in done:
        same = (each for each in done if all(each[key] == result[key] for key in ("load", "policy")))
        private = next(each for each in same if each["rule"] == "private_clusters")
        result["anomaly"] = anomaly(result, private)
    loads_of = [
        {"load": load, "jobs": len(work.trace), "left_out": work.left_out, "loads": work.load(days)}
        for load, work in works.items()
    ]
    return [*loads_of, *done]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, metavar="TRACE", help="Philly's trace, with the column vc")
    parser.add_argument("--loads", type=float, nargs="+", default=[0.7, 0.9, 1.0])
    parser.add_argument("--policy", nargs="+", default=["las", "fifo"])
    parser.add_argument("--days", type=float, default=60.0, help="days of arrivals (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the results here instead of to standard output")
    args = parser.parse_args()
    text = json.dumps(experiment(read_trace(args.trace), args.loads, args.policy, args.days, args.seed), indent=1)
    if args.json:
        args.json.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
