"""Rules by which tenants share 96 GPUs, beside each other: queueing delay of each tenant, JCT and fragmentation; JSON.

    python bench/tenants.py TRACE [--loads 0.7 0.9 1.0] [--days 60] [--policy las fifo] [--json FILE] [--processes N]

The experiment of HiveD (OSDI 2020): 12 nodes of 8 GPUs, two to a leaf switch, and 11 tenants, the named virtual clusters of
the trace (Philly) with the most jobs of the days with the most arrivals. The one with the most GPU time owns a leaf (`multi_level`)
or two nodes (`single_level`), each other one a node. Of each tenant, jobs are drawn until their load is `load`, or all: the load is
in the output. Jobs larger than what their tenant owns are left out, and counted. Each job needs the fewest nodes on which its GPUs
fit (a hard affinity requirement), unless `--anywhere`. A preemption costs 62 s.

Of each run: mean and 99th percentile of each tenant's queueing delay, seconds; mean JCT, seconds; `fragmented`, the mean share of
nodes that cannot give 8 GPUs to a guaranteed job, as other guaranteed jobs hold some of them; `partly_used`, that of nodes of which
these hold some GPUs and not all, as the metric `tiresias_fragmentation` counts nodes; `guaranteed`, the mean number of GPUs that
guaranteed jobs hold; `withheld`, that of GPUs that tenants own, do not use, and have waiting jobs for that fit; `anomaly`, the
tenants whose mean delay is longer than in private clusters, with the ratio. Of each workload: `least_in_use`, what `fragmented` is
at least where jobs that fit are in their tenants' cells: even if no job waited. FILE has each result as soon as its run has ended;
a second call with the same FILE makes the runs that are missing.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from watched_tenants import Used, WatchedTenants

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Floats
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.outcome_metrics import queueing
from tiresias.simulator.simulated_placement import SimulatedPlacement
from tiresias.simulator.simulation import simulate
from tiresias.simulator.simulation_rules import Cost, Rules
from tiresias.simulator.trace import Trace, TraceJob, read_trace

DAY, NODE, TENANTS = 86400.0, 8, 11
CLUSTER = ClusterSize(12, NODE, nodes_per_leaf=2)
COST = Cost(resume=62.0)
HARD = SimulatedPlacement(packlimit=0.0, wait_limit=math.inf, effect=False)  # each job waits for the fewest nodes
PRIVATE, QUOTA, HIVED = "private_clusters", "gpu_quotas", "virtual_clusters"
SINGLE, MULTI = "single_level", "multi_level"
RUNS = ((PRIVATE, SINGLE), (QUOTA, SINGLE), (HIVED, SINGLE), (HIVED, MULTI))


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

    def gpus(self) -> dict[str, int]:
        """Return the GPUs of all tenants."""
        return {name: self.owned(name) for name in sorted(set(self.trace.vc))}

    def load(self, days: float) -> dict[str, float]:
        """Return the load of each tenant: GPU time over the time of its GPUs."""
        service = defaultdict[str, float](float)
        for name, gpus, duration in zip(self.trace.vc, self.trace.gpus, self.trace.duration, strict=True):
            service[name] += gpus * duration
        return {name: service[name] / (self.owned(name) * days * DAY) for name in sorted(service)}

    def least_in_use(self) -> float:
        """Return the share of nodes that guaranteed jobs use in the mean if each job starts at once, and as many as fit are in the
        cells of their tenant: no node has jobs of two tenants. Jobs that wait make it larger."""
        return sum(map(self._nodes_in_use, self.gpus())) / CLUSTER.nodes

    def _nodes_in_use(self, tenant: str) -> float:
        """Return the mean number of a tenant's nodes, from the first submission of all tenants to the last one."""
        submit, own = self.trace.submit, np.array(self.trace.vc) == tenant
        begin, gpus = submit[own], self.trace.gpus[own]
        moments = np.concatenate((begin, begin + self.trace.duration[own]))
        order = np.argsort(moments)
        running = np.cumsum(np.concatenate((gpus, -gpus))[order])
        lasts = np.diff(np.append(np.minimum(moments[order], submit.max()), submit.max()))
        return float(lasts @ np.ceil(np.minimum(running, self.owned(tenant)) / NODE) / np.ptp(submit))

    def declared(self, levels: str) -> tuple[DeclaredTenant, ...]:
        """Return what each tenant owns."""
        two = DeclaredCells("leaf", 1) if levels == MULTI else DeclaredCells("node", 2)
        names = sorted(set(self.trace.vc))
        return tuple(
            DeclaredTenant(name, (two if name == self.largest else DeclaredCells("node", 1),)) for name in names
        )


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


def run(work: Workload, rule: str, levels: str, policy: str, placement: SimulatedPlacement | None) -> dict[str, Any]:
    """Return the figures of one simulation."""
    tenants, begin = WatchedTenants(rule, work.declared(levels), owned=work.gpus()), time.perf_counter()
    rules = Rules(POLICIES[policy], replace(PolicyConfig(), name=policy), COST, by_node=True, placement=placement)
    if rule == PRIVATE:
        wait, jct, preemptions = _private(work, rules)
    else:
        outcome = simulate(work.trace, CLUSTER, replace(rules, tenants=tenants))
        wait, jct, preemptions = queueing(work.trace, outcome), outcome.jct, int(outcome.preemptions.sum())
    until = float(work.trace.submit.max())
    means = tenants.means(until)._asdict() if tenants.seen else dict.fromkeys(Used._fields)
    nodes, partly = (means[name] and means[name] / CLUSTER.nodes for name in ("nodes", "partly"))
    return {
        "rule": rule,
        "cells": levels,
        "policy": policy,
        "delay": _delays(work.trace, wait),
        "mean_delay": float(wait.mean()),
        "mean_jct": float(jct.mean()),
        "preemptions": preemptions,
        "fragmented": nodes,
        "partly_used": partly,
        "guaranteed": means["guaranteed"],
        "withheld": means["withheld"],
        "seconds": time.perf_counter() - begin,
    }


def _private(work: Workload, rules: Rules) -> tuple[Floats, Floats, int]:
    """Simulate each tenant alone. Returns queueing delay and JCT of each job, seconds, and the number of preemptions."""
    vc, preemptions = np.array(work.trace.vc), 0
    wait, jct = np.zeros(len(vc)), np.zeros(len(vc))
    for name in sorted(set(work.trace.vc)):
        own = work.trace.of_partitions([name])
        nodes = work.owned(name) // NODE
        alone = rules if nodes > 1 else replace(rules, placement=None, by_node=False)  # one node is always the fewest
        outcome = simulate(own, ClusterSize(nodes, NODE), alone)
        wait[vc == name], jct[vc == name] = queueing(own, outcome), outcome.jct
        preemptions += int(outcome.preemptions.sum())
    return wait, jct, preemptions


def _delays(trace: Trace, waited: Floats) -> dict[str, dict[str, float]]:
    vc = np.array(trace.vc)
    return {
        name: {"mean": float(waited[vc == name].mean()), "p99": float(np.percentile(waited[vc == name], 99))}
        for name in sorted(set(trace.vc))
    }


def anomaly(result: dict[str, Any], private: dict[str, Any]) -> dict[str, float]:
    """Return the tenants that wait longer on average than in private clusters by a second or more, with the ratio."""
    mean = {name: private["delay"][name]["mean"] for name in private["delay"]}
    longer = {name: own["mean"] for name, own in result["delay"].items() if own["mean"] > mean[name] + 1.0}
    return {name: waited / max(mean[name], 1.0) for name, waited in longer.items()}


class Results:
    """The results that are done, in a file if there is one."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self.workloads: list[dict[str, Any]] = []
        self.runs: list[dict[str, Any]] = json.loads(file.read_text())["runs"] if file and file.exists() else []

    def has(self, **case: Any) -> bool:
        """Return whether a run is done."""
        return any(all(each[key] == value for key, value in case.items()) for each in self.runs)

    def add(self, result: dict[str, Any]) -> None:
        """Add a run, and write the file."""
        self.runs.append(result)
        for each in self.runs:
            own = {key: each[key] for key in ("load", "policy")}
            private = [other for other in self.runs if other["rule"] == PRIVATE and own.items() <= other.items()]
            each["anomaly"] = anomaly(each, private[0]) if private else None
        self.write()

    def write(self) -> None:
        """Write the results to the file, else to standard output."""
        text = json.dumps({"workloads": self.workloads, "runs": self.runs}, indent=1)
        if self._file:
            self._file.write_text(text + "\n")
        else:
            print(text)


def experiment(
    works: dict[float, Workload], policies: Iterable[str], affinity: bool, processes: int, done: Results
) -> None:
    """Make the runs that are not done yet, by load and policy."""
    cases = [(load, policy, *each) for (load, policy), each in product(product(works, policies), RUNS)]
    placement = HARD if affinity else None
    with ProcessPoolExecutor(processes) as pool:
        pending = {
            pool.submit(run, works[load], rule, levels, policy, placement): load
            for load, policy, rule, levels in cases
            if not done.has(load=load, policy=policy, rule=rule, cells=levels)
        }
        for each in as_completed(pending):
            done.add({"load": pending[each], **each.result()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, metavar="TRACE", help="Philly's trace, with the column vc")
    parser.add_argument("--loads", type=float, nargs="+", default=[0.7, 0.9, 1.0])
    parser.add_argument("--policy", nargs="+", default=["las", "fifo"])
    parser.add_argument("--days", type=float, default=60.0, help="days of arrivals (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: %(default)s)")
    parser.add_argument("--anywhere", action="store_true", help="jobs run on any nodes")
    parser.add_argument("--processes", type=int, default=1, help="runs at once (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the results here instead of to standard output")
    args = parser.parse_args()
    trace, done = read_trace(args.trace), Results(args.json)
    works = {load: workload(trace, load, args.days, args.seed) for load in args.loads}
    done.workloads = [
        {
            "load": load,
            "jobs": len(work.trace),
            "left_out": work.left_out,
            "least_in_use": work.least_in_use(),
            "loads": work.load(args.days),
        }
        for load, work in works.items()
    ]
    experiment(works, args.policy, not args.anywhere, args.processes, done)


if __name__ == "__main__":
    main()
