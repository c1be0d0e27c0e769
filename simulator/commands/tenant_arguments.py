"""The options of `tiresias simulate` on tenants that share the cluster, and their values."""

from __future__ import annotations

import argparse
from pathlib import Path

from tiresias.errors import UsageError
from tiresias.scheduler.tenants.tenant_rules import TENANT_RULES
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.commands import argument_types as types
from tiresias.simulator.occupancy import Occupancy
from tiresias.simulator.simulated_tenants import SimulatedTenants, read_tenants


def configure(group: argparse._ArgumentGroup) -> None:
    """Add the options."""
    rules = " or ".join(TENANT_RULES)
    group.add_argument(
        "--virtual-clusters", type=Path, metavar="FILE.toml",
        help=f"[[virtual_cluster]] tables with the keys name, cells and opportunistic; needs --admission {rules}; "
        "a job belongs to the one that the trace's column vc names; means --by-node",
    )  # fmt: skip
    group.add_argument(
        "--nodes-per-leaf", type=types.whole_number("--nodes-per-leaf"), default=0, metavar="N",
        help="nodes under each leaf switch; means --by-node (default: all nodes under one)",
    )  # fmt: skip
    group.add_argument(
        "--sockets-per-node", type=types.whole_number("--sockets-per-node"), default=1, metavar="N",
        help="sockets of each node, with equal numbers of GPUs: cells of level socket; more than one means --by-node (default: 1)",
    )  # fmt: skip


def tenants(args: argparse.Namespace, cluster: ClusterSize) -> SimulatedTenants | None:
    """Return the tenants; None: there are none.

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
    found = SimulatedTenants(args.admission, read_tenants(file))
    try:
        found.check(Occupancy(cluster).nodes())
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None
    return found
