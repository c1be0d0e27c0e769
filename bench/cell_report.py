"""What a request for the cells of virtual clusters costs: `tiresias cells` and `status`. One core; prints JSON.

    python bench/cell_report.py [--nodes 1024] [--jobs 5000] [--clusters 16] [--repeat 5]

The cells are those after the first decision on waiting jobs, as in decide_tenants.py. `report_ms` is the report with both trees,
`sums_ms` that without trees, `answer_ms` the report as a line of JSON; the medians, processor time. As in the controller, garbage
collections leave out the cells.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable

from decide import CONFIG, NODES_OF_A_LEAF
from decide_tenants import after, shared

from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule
from tiresias.slurm_plugin.sockets.shown_cells import published_cells


def filled(nodes: int, jobs: int, clusters: int) -> VirtualClusterRule:
    """Return a rule whose newest snapshot is that after its first decision."""
    leaves = nodes // NODES_OF_A_LEAF // clusters
    names = [f"vc{number}" for number in range(clusters)]
    rule = VirtualClusterRule([DeclaredTenant(name, (DeclaredCells("leaf", leaves),)) for name in names])
    tenants = [TenantPolicy(name, CONFIG, POLICIES[CONFIG.name]) for name in (*names, OUTSIDE)]
    state = shared(jobs, nodes, clusters, 1)
    rule.decide(after(state, rule.decide(state, tenants)[0]), tenants)
    return rule


def median_ms(call: Callable[[], object], repeat: int) -> float:
    """Return the median processor time of a call."""
    found = []
    for _ in range(repeat):
        began = time.process_time()
        call()
        found.append((time.process_time() - began) * 1e3)
    return round(statistics.median(found), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("nodes", 1024), ("jobs", 5000), ("clusters", 16), ("repeat", 5)):
        parser.add_argument(f"--{name}", type=int, default=default, help="(default: %(default)s)")
    args = parser.parse_args()
    rule = filled(args.nodes, args.jobs, args.clusters)
    gc.freeze()
    report = rule.report()
    assert report is not None
    result = {
        **vars(args),
        "guaranteed_gpus": sum(each.guaranteed for each in report.clusters),
        "report_ms": median_ms(rule.report, args.repeat),
        "sums_ms": median_ms(lambda: rule.report(trees=False), args.repeat),
        "answer_ms": median_ms(lambda: json.dumps(published_cells(report, {}, 150.0)), args.repeat),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
