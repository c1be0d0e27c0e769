"""What is kept of the virtual nodes while hardware is bad is what a new read of the same cells finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.tenants.cluster_replay import ClusterReplay
from tests.scheduler.tenants.shared_cluster import DECLARED, Drawn, cluster_of, tenants_of
from tests.scheduler.tenants.test_virtual_cluster_rule import FIFO, LAS, replayed, small_jobs
from tiresias.scheduler.model import JobState, Plan, Snapshot
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE
from tiresias.scheduler.tenants.tenant_rules import tenants_by_name
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule
from tiresias.scheduler.tenants.virtual_node_bindings import VirtualNodeBindings
from tiresias.scheduler.tenants.virtual_nodes import VirtualNodes

NAMES = ("one", "two", OUTSIDE)
outages = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30), st.integers(0, 5)), min_size=1, max_size=4)


def columns_of(bindings: VirtualNodeBindings) -> Mapping[str, object]:
    """Return all columns, comparable."""
    held, ordered = bindings.held, bindings.ordered
    found = {name: getattr(bindings, name).tolist() for name in ("row", "usable", "used", "on_usable")}
    found |= {f"held {name}": getattr(held, name).tolist() for name in ("count", "at", "gpus")}
    return found | {
        "gangs": held.names, "free": bindings.free, "possible": bindings.possible, "order": ordered.order.tolist()
    }  # fmt: skip


def check(rule: VirtualClusterRule, snapshot: Snapshot) -> None:
    """Show the snapshot to the cells once more, and compare what each virtual cluster reads of them."""
    cells = rule._cells
    assert cells is not None
    cells.occupancy.follow(snapshot, tenants_by_name(snapshot.jobs, NAMES))
    for name, nodes in cells.nodes.items():
        new = VirtualNodes(cells.occupancy, name, snapshot.nodes, cells.rows).bindings
        assert columns_of(nodes.bindings) == columns_of(new)


@settings(max_examples=examples(60), deadline=None)
@given(drawn=small_jobs, policy=st.sampled_from([FIFO, LAS]), down=outages)
def test_kept_bindings_are_those_of_a_new_read(
    snapshot_of: Any, drawn: list[tuple[str, int, int, int]], policy: dict[str, Any], down: list[tuple[int, int, int]]
) -> None:
    """Jobs start, are preempted and end while nodes fail and return."""
    rule, times = VirtualClusterRule(DECLARED), tuple((float(at), float(at + length), row) for at, length, row in down)

    def compare(snapshot: Snapshot, _: Plan) -> None:
        check(rule, snapshot)

    ClusterReplay(snapshot_of, rule, tenants_of(policy), replayed(drawn, 1), compare, times).run()


def with_bad_node(snapshot: Snapshot, node: int) -> Snapshot:
    """Return the snapshot with a bad node, and with each running job in cells of the type `node`."""
    free, held = snapshot.nodes.free.amount.copy(), snapshot.allocations
    free[node] = 0.0
    usable = np.arange(len(snapshot.nodes)) != node
    nodes = replace(snapshot.nodes, usable=usable, free=replace(snapshot.nodes.free, amount=free))
    return replace(snapshot, nodes=nodes, allocations=replace(held, owned_cell=("node",) * len(held.job)))


def test_where_hardware_is_bad_unchanged_bindings_are_the_same_object(snapshot_of: Any) -> None:
    """A job of `two` ends: what compares by identity finds `one` unchanged."""
    runs = [Drawn(name, 4, JobState.RUNNING, 0.0, node, True) for name, node in (("one", 0), ("two", 2))]
    both, alone = (with_bad_node(cluster_of(snapshot_of, each), 4) for each in (runs, runs[:1]))
    rule, found = VirtualClusterRule(DECLARED), list[dict[str, VirtualNodeBindings]]()
    for snapshot in (both, alone):
        rule.decide(snapshot, tenants_of(LAS))
        assert rule._cells is not None
        found.append({name: nodes.bindings for name, nodes in rule._cells.nodes.items()})
    assert {name: now is found[0][name] for name, now in found[1].items()} == {"one": True, "two": False}
