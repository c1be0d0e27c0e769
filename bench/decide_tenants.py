"""How much longer a decision takes where virtual clusters share the cluster. One core; prints JSON.

    python bench/decide_tenants.py [--nodes 1024] [--jobs 5000] [--clusters 16] [--repeat 20]

Both decide on the same jobs: `shared` by one order for all, `virtual_clusters` by the rule. Each virtual cluster owns the same
number of leaf switches, of 32 nodes each. The states are those of an ordinary cycle (`steady` of decide.py), each after its own
decisions. `ratio` is that of the medians.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from decide import CONFIG, NODES_OF_A_LEAF, churned, ended, freed, snapshot

from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Allocations, JobState, Plan, Snapshot
from tiresias.scheduler.place.free_capacity import amounts
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.resources import Resources, joined
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

CYCLES = 30  # at most, until nothing is left to do
Decision = Callable[[Snapshot], Plan]


def shared(jobs: int, nodes: int, clusters: int, seed: int) -> Snapshot:
    """Return an idle cluster and its waiting jobs, each of a random virtual cluster."""
    state = snapshot(jobs, nodes, False, seed)
    of = np.random.default_rng((seed, 1)).integers(0, clusters, jobs).tolist()
    return replace(state, jobs=replace(state.jobs, virtual_cluster=tuple(f"vc{number}" for number in of)))


def rule(nodes: int, clusters: int) -> Decision:
    """Return the decision of the virtual clusters."""
    leaves = nodes // NODES_OF_A_LEAF // clusters
    names = [f"vc{number}" for number in range(clusters)]
    of_rule = VirtualClusterRule([DeclaredTenant(name, (DeclaredCells("leaf", leaves),)) for name in names])
    tenants = [TenantPolicy(name, CONFIG, POLICIES[CONFIG.name]) for name in (*names, OUTSIDE)]
    return lambda state: of_rule.decide(state, tenants)[0]


def after(state: Snapshot, plan: Plan) -> Snapshot:
    """Return the state once the plan has been carried out; preempted jobs have released their GPUs."""
    row_of = {job: row for row, job in enumerate(state.jobs.id)}
    state = _rebound(state, plan, row_of)
    state = ended(state, [row_of[each.job] for each in plan.preemptions], JobState.WAITING)
    return _started(state, plan, row_of)


def _rebound(state: Snapshot, plan: Plan, row_of: dict[str, int]) -> Snapshot:
    held = state.allocations
    cells = list(held.owned_cell or ("",) * len(held.job))
    for each in plan.rebindings:
        places = np.flatnonzero(held.job == row_of[each.job]).tolist()
        for place, cell in zip(places, each.owned_cells or ("",) * len(places), strict=True):
            cells[place] = cell
    return replace(state, allocations=replace(held, owned_cell=tuple(cells)))


def _started(state: Snapshot, plan: Plan, row_of: dict[str, int]) -> Snapshot:
    jobs, held = state.jobs, state.allocations
    node_of = {name: row for row, name in enumerate(state.nodes.name)}
    starts = [(row_of[start.job], start) for start in plan.starts]
    rows = [
        (row, node_of[name], *amounts(jobs.request[row], gpus)) for row, start in starts for name, gpus in start.nodes
    ]
    new = np.array(rows, dtype=float).reshape(-1, 5)
    job, node = new[:, 0].astype(np.int64), new[:, 1].astype(np.int64)
    status = jobs.state.copy()
    status[job] = JobState.RUNNING
    cells = [cell for _, start in starts for cell in start.owned_cells or ("",) * len(start.nodes)]
    allocations = Allocations(
        np.concatenate((held.job, job)),
        np.concatenate((held.node, node)),
        joined([held.resources, Resources(new[:, 2:])]),
        owned_cell=(*(held.owned_cell or ()), *cells),
    )
    nodes = freed(state.nodes, node, -new[:, 2:])
    return replace(state, jobs=replace(jobs, state=status), nodes=nodes, allocations=allocations)


def steady(state: Snapshot, decision: Decision, seed: int) -> Snapshot:
    """Return an ordinary cycle: the state after the decisions on an idle cluster, half a minute later."""
    for _ in range(CYCLES):
        plan = decision(state)
        if not (plan.starts or plan.preemptions):
            break
        state = after(state, plan)
    return churned(state, seed)


def milliseconds(decision: Decision, state: Snapshot, repeat: int) -> list[float]:
    """Return the processor time of each decision."""
    found = []
    for _ in range(repeat):
        began = time.process_time()
        decision(state)
        found.append((time.process_time() - began) * 1e3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("nodes", 1024), ("jobs", 5000), ("clusters", 16), ("repeat", 20)):
        parser.add_argument(f"--{name}", type=int, default=default, help="(default: %(default)s)")
    args = parser.parse_args()
    decisions = {"shared": lambda state: decide(state, CONFIG), "virtual_clusters": rule(args.nodes, args.clusters)}
    result: dict[str, object] = vars(args)
    for name, decision in decisions.items():
        state = steady(shared(args.jobs, args.nodes, args.clusters, 1), decision, 1)
        spent = milliseconds(decision, state, args.repeat)
        result[f"{name}_p50_ms"], result[f"{name}_p99_ms"] = np.percentile(spent, (50, 99)).round(2).tolist()
        result[f"{name}_running"] = int((state.jobs.state == JobState.RUNNING).sum())
    result["ratio"] = round(result["virtual_clusters_p50_ms"] / result["shared_p50_ms"], 2)  # type: ignore[operator]
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
