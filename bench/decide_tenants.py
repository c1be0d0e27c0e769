"""How much longer a decision takes where virtual clusters share the cluster. One core; prints JSON.

    python bench/decide_tenants.py [--nodes 1024] [--jobs 5000] [--clusters 16] [--repeat 20] [--ends 0] [--bad 0]

All decide on the same jobs: `shared` by one order for all, `virtual_clusters` by the rule. Each virtual cluster owns the same
number of leaf switches, of 32 nodes each. The decisions are those of ordinary cycles (`steady` of decide.py), one after the other
and in turns: each one is carried out, 1% of the running jobs end, as many arrive, and 1% sink a queue; with `--ends` so many jobs
instead, such as one, as where each event is decided on at once. `ratio` is that of the medians. `unchanged` is a further decision
on the same state, as where nothing happened; `on_same` is one without virtual clusters on the snapshots of `virtual_clusters`,
whose jobs run elsewhere than those of `shared`, and `ratio_on_same` compares with it. `private_clusters` divides the nodes once and
for all, so that each virtual cluster has only a policy of its own; `ratio_private` compares it with `shared`. So many nodes as
`--bad` are down.
Milliseconds of processor time. As in the controller, garbage collections leave out the cells, and there is none during a decision.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from decide import CONFIG, NODES_OF_A_LEAF, churned, ended, freed, snapshot

from tiresias.scheduler import garbage_collection
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Allocations, JobState, Plan, Snapshot
from tiresias.scheduler.place.free_capacity import amounts
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.resources import Resources, joined
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.private_clusters import PrivateClusters
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy, TenantRule
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

CYCLES = 30  # at most, until nothing is left to do
Decision = Callable[[Snapshot], Plan]


def shared(jobs: int, nodes: int, clusters: int, seed: int, bad: int = 0) -> Snapshot:
    """Return an idle cluster and its waiting jobs, each of a random virtual cluster. `bad`: nodes that are down."""
    state = snapshot(jobs, nodes, False, seed)
    down = np.isin(np.arange(nodes), np.random.default_rng((seed, 2)).choice(nodes, bad, replace=False))
    state = replace(state, nodes=replace(state.nodes, usable=state.nodes.usable & ~down))
    of = np.random.default_rng((seed, 1)).integers(0, clusters, jobs).tolist()
    jobs = replace(state.jobs, virtual_cluster=tuple(f"vc{number}" for number in of), opportunistic=state.jobs.movable)
    return replace(state, jobs=jobs)


def rule(
    nodes: int, clusters: int, kind: Callable[[Sequence[DeclaredTenant]], TenantRule] = VirtualClusterRule
) -> Decision:
    """Return the decision of a rule for the virtual clusters."""
    leaves = nodes // NODES_OF_A_LEAF // clusters
    names = [f"vc{number}" for number in range(clusters)]
    of_rule = kind([DeclaredTenant(name, (DeclaredCells("leaf", leaves),)) for name in names])
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


def steady(state: Snapshot, decision: Decision, seed: int, ends: int) -> Snapshot:
    """Return an ordinary cycle: the state after the decisions on an idle cluster, half a minute later. `ends`: as of `churned`."""
    for _ in range(CYCLES):
        plan = decision(state)
        if not (plan.starts or plan.preemptions):
            break
        state = after(state, plan)
    return churned(state, seed, ends)


def timed(decision: Decision, state: Snapshot) -> tuple[Plan, float]:
    """Return the plan, and the milliseconds of processor time that it took."""
    with garbage_collection.suspended():
        began = time.process_time()
        plan = decision(state)
        return plan, (time.process_time() - began) * 1e3


def measured(decisions: dict[str, Decision], states: dict[str, Snapshot], repeat: int, ends: int) -> dict[str, object]:
    """Return the figures of so many cycles."""
    spent, same = ({name: list[float]() for name in decisions} for _ in range(2))
    on_same = list[float]()
    for cycle in range(repeat):
        on_same.append(timed(decisions["shared"], states["virtual_clusters"])[1])
        for name, decision in decisions.items():
            plan, milliseconds = timed(decision, states[name])
            spent[name].append(milliseconds)
            same[name].append(timed(decision, states[name])[1])
            states[name] = churned(after(states[name], plan), cycle, ends)
    result: dict[str, object] = {}
    for name in decisions:
        result[f"{name}_p50_ms"], result[f"{name}_p99_ms"] = np.percentile(spent[name], (50, 99)).round(2).tolist()
        result[f"{name}_unchanged_p50_ms"] = round(float(np.median(same[name])), 2)
        result[f"{name}_running"] = int((states[name].jobs.state == JobState.RUNNING).sum())
    result["on_same_p50_ms"] = round(float(np.median(on_same)), 2)
    middle = {name: float(np.median(each)) for name, each in (*spent.items(), ("on_same", on_same))}
    result["ratio"] = round(middle["virtual_clusters"] / middle["shared"], 2)
    result["ratio_on_same"] = round(middle["virtual_clusters"] / middle["on_same"], 2)
    result["ratio_private"] = round(middle["private_clusters"] / middle["shared"], 2)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("nodes", 1024), ("jobs", 5000), ("clusters", 16), ("repeat", 20), ("ends", 0), ("bad", 0)):
        parser.add_argument(f"--{name}", type=int, default=default, help="(default: %(default)s)")
    args = parser.parse_args()
    decisions = {
        "shared": lambda state: decide(state, CONFIG),
        "virtual_clusters": rule(args.nodes, args.clusters),
        "private_clusters": rule(args.nodes, args.clusters, PrivateClusters),
    }
    idle = shared(args.jobs, args.nodes, args.clusters, 1, args.bad)
    states = {name: steady(idle, decision, 1, args.ends) for name, decision in decisions.items()}
    gc.collect()
    gc.freeze()
    result = {**vars(args), **measured(decisions, states, args.repeat, args.ends)}
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
