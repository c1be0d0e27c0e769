"""The options of `tiresias simulate` and `whatif` on tenants that share the cluster, and their values."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from tiresias.errors import UsageError
from tiresias.scheduler.tenants.tenant_rules import TENANT_RULES
from tiresias.scheduler.topology_tree import LEAF
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.commands import argument_types as types
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.experiments.tenant_runs import SharedCluster, startable
from tiresias.simulator.occupancy import Occupancy
from tiresias.simulator.tenant_file import TenantFile, read_tenant_file


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options of `simulate`."""
    rules = " or ".join(TENANT_RULES)
    group.add_argument(
        "--virtual-clusters", type=Path, metavar="FILE.toml",
        help="[[virtual_cluster]] tables with the keys name, cells, opportunistic, policy (default: --policy), accounts, qos and "
        f"partitions; needs --admission {rules}; a job of an sacct history belongs to the first table whose lists it matches, "
        "any other job to the table that the trace's column vc names; means --by-node",
    )  # fmt: skip
    _configure_topology(group)


def _configure_topology(group: argparse._ActionsContainer) -> None:
    configure_leaves(group)
    group.add_argument(
        "--sockets-per-node", type=types.whole_number("--sockets-per-node"), default=1, metavar="N",
        help="sockets of each node, with equal numbers of GPUs: cells of level socket; more than one means --by-node (default: 1)",
    )  # fmt: skip


def configure_leaves(group: argparse._ActionsContainer) -> None:
    """Add the option on leaf switches."""
    group.add_argument(
        "--nodes-per-leaf", type=types.whole_number("--nodes-per-leaf"), default=0, metavar="N",
        help="nodes under each leaf switch; means --by-node (default: all nodes under one)",
    )  # fmt: skip


def configure_history(group: argparse._ArgumentGroup) -> None:
    """Add the options of `whatif`."""
    group.add_argument(
        "--virtual-clusters", type=Path, metavar="FILE.toml",
        help="replay the policies in virtual clusters: [[virtual_cluster]] tables, also of a controller's configuration, as of "
        "tiresias simulate",
    )  # fmt: skip
    group.add_argument(
        "--admission", type=types.some_of("--admission", tuple(TENANT_RULES)), metavar="RULE[,RULE...]",
        help=f"{', '.join(TENANT_RULES)}: how the virtual clusters share the cluster; each policy is replayed under each rule "
        "(default: virtual_clusters)",
    )  # fmt: skip
    _configure_topology(group)


def declared(args: argparse.Namespace, cluster: ClusterSize) -> TenantFile | None:
    """Return the tenants of `simulate`; None: there are none.

    Raises:
        UsageError: A rule of tenants without a file, a file without such a rule, or cells that do not fit into the cluster.
    """
    file: Path | None = args.virtual_clusters
    rules = " or ".join(TENANT_RULES)
    if args.admission not in TENANT_RULES:
        if file:
            raise UsageError(f"--virtual-clusters {file}: no rule uses them; give --admission {rules}")
        return None
    if not file:
        raise UsageError(
            f"--admission {args.admission}: no virtual clusters are declared; give --virtual-clusters FILE"
        )
    return _checked(file, cluster)


def shared(args: argparse.Namespace, setup: Setup) -> tuple[Setup, SharedCluster | None]:
    """Return the setup of `whatif` with its virtual clusters, and these; None: there are none.

    The jobs of the setup are assigned to the virtual clusters. Jobs that could never start under one of the rules are dropped.

    Raises:
        UsageError: A rule without a file, or cells that do not fit into the cluster.
    """
    file: Path | None = args.virtual_clusters
    if not file:
        if option := _without_use(args):
            raise UsageError(f"{option}: no virtual clusters are declared; give --virtual-clusters FILE")
        return setup, None
    cluster = replace(setup.cluster, nodes_per_leaf=args.nodes_per_leaf, sockets_per_node=args.sockets_per_node)
    tenants = _checked(file, cluster, any_hardware=True)
    rules = tuple(tenants.shared_by(rule) for rule in args.admission or ("virtual_clusters",))
    trace = startable(tenants.assigned(setup.trace), cluster, rules)
    return replace(setup, trace=trace, cluster=cluster), SharedCluster(file.name, rules)


def _without_use(args: argparse.Namespace) -> str:
    """Return an option of `whatif` that was given and has a use for virtual clusters only; "": there is none."""
    given = {
        "--admission": bool(args.admission),
        "--nodes-per-leaf": bool(args.nodes_per_leaf),
        "--sockets-per-node": args.sockets_per_node > 1,
    }
    return next((option for option, is_given in given.items() if is_given), "")


def _checked(file: Path, cluster: ClusterSize, *, any_hardware: bool = False) -> TenantFile:
    """Return the tenants of a file. `any_hardware`: pinned cells name nodes of another cluster, and are ordinary ones here."""
    found = read_tenant_file(file)
    found = found.unpinned() if any_hardware else found
    try:
        found.shared_by("virtual_clusters").check(Occupancy(cluster).nodes())
    except UsageError as error:
        raise UsageError(f"{file}: {error}{_hint(found, cluster)}") from None
    return found


def _hint(found: TenantFile, cluster: ClusterSize) -> str:
    """Return how to state the leaf switches, where virtual clusters own some and all nodes are under one."""
    owns_leaves = any(cell.level == LEAF for tenant in found.declared for cell in tenant.cells)
    return "; --nodes-per-leaf N gives the nodes under each leaf" if owns_leaves and not cluster.nodes_per_leaf else ""
