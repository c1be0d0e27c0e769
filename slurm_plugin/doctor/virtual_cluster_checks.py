"""Checks of virtual clusters (VCs): whether jobs reach them, whether their cells fit, and which nodes have no cell. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from tiresias.errors import UsageError
from tiresias.scheduler.model import Nodes
from tiresias.scheduler.tenants.cells_of_topology import cell_specification
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.virtual_clusters.cell_state import CellState
from tiresias.scheduler.virtual_clusters.chain_state import ChainState
from tiresias.slurm_plugin.backends.interface import SlurmNode
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules
from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine, named

_TABLE = "correct [[virtual_cluster]] in tiresias.toml"


class MappedCluster(Protocol):
    """A VC with its jobs: those of the first VC of the file all of whose lists match. An empty list matches any job."""

    @property
    def tenant(self) -> DeclaredTenant:
        """What it owns."""

    @property
    def accounts(self) -> Collection[str]:
        """Names of accounts."""

    @property
    def qos(self) -> Collection[str]:
        """Names of QOS."""

    @property
    def partitions(self) -> Collection[str]:
        """Names of partitions."""


def cells(clusters: Sequence[MappedCluster], nodes: Nodes) -> tuple[CellState | None, list[Finding]]:
    """Return the cells, None where they do not fit, and the findings on all nodes and on those that are usable now."""
    try:
        state = CellState(cell_specification(nodes, [each.tenant for each in clusters]))
    except UsageError as error:
        return None, [Finding(Level.BLOCKS, "virtual clusters", str(error), _TABLE)]
    bad = [name for name, usable in zip(nodes.name, nodes.usable.tolist(), strict=True) if not usable]
    for node in bad:
        state.bad.node_bad(node)
    short = [text for chain in state.chains.values() for text in _too_few(state, chain)]
    short += _bad_pinned(state)
    if not short:
        return state, [fine("virtual clusters", f"the cells of {len(clusters)} fit into the nodes")]
    remedy = f"repair {named(bad)}; until then some jobs within their cells wait"
    return state, [Finding(Level.RISK, "virtual clusters", text, remedy) for text in short]


def _too_few(state: CellState, chain: ChainState) -> Iterator[str]:
    """Yield each level of which fewer cells are healthy than the VCs own, larger ones with their parts."""
    asked = 0
    for level in range(chain.chain.top, 1, -1):
        if level < chain.chain.top:
            asked *= chain.chain.at(level + 1).children
        owned = [
            tree.owned[chain.chain.name][level] for tree in state.clusters.values() if chain.chain.name in tree.owned
        ]
        asked += sum(owned)
        there = sum(cell.healthy for cell in chain.cells[level])
        if asked > there:
            kind = chain.chain.at(level).cell_type
            yield f"virtual clusters own {asked} cells of type {kind}, parts of larger ones included; {there} are healthy now"


def _bad_pinned(state: CellState) -> Iterator[str]:
    """Yield each pinned cell of which hardware is bad: no other replaces it."""
    for name, tree in state.clusters.items():
        for hardware, cell in tree.pinned.items():
            bad = [node for node in cell.physical.nodes if node in state.bad.nodes] if cell.physical else []
            if bad:
                verb = "is" if len(bad) == 1 else "are"
                yield f"{named(bad)} {verb} down, drained or reserved, in the cell of {name} that is pinned to {hardware}"


def reach(clusters: Sequence[MappedCluster], rules: SlurmRules, managed: Collection[str]) -> Iterator[Finding]:
    """Check that jobs reach each VC. `managed`: the managed partitions."""
    accounts = {account for account, user, _ in rules.associations if not user}
    for at, cluster in enumerate(clusters):
        name = cluster.tenant.name
        about = f"virtual cluster {name}"
        for problem in _missing(cluster, accounts, rules, managed):
            yield Finding(Level.RISK, about, problem, _TABLE)
        if before := next((each for each in clusters[:at] if _hides(each, cluster)), None):
            text = f"no job reaches it: all of its jobs belong to {before.tenant.name}, which stands before it"
            yield Finding(Level.RISK, about, text, "put the table with more lists first, or narrow the other one")
        elif closed := _closed(cluster, rules, managed):
            yield Finding(Level.RISK, about, closed, "AllowAccounts and AllowQos of the partitions, or other lists")


def _missing(
    cluster: MappedCluster, accounts: Collection[str], rules: SlurmRules, managed: Collection[str]
) -> Iterator[str]:
    """Yield each name that Slurm does not have; accounts only where they could be read."""
    if accounts:
        yield from (f"account {name} does not exist" for name in cluster.accounts if name not in accounts)
    if rules.qos:
        yield from (f"QOS {name} does not exist" for name in cluster.qos if name not in rules.qos)
    for name in cluster.partitions:
        if rules.partitions and name not in rules.partitions:
            yield f"partition {name} does not exist"
        elif name not in managed:
            yield f"partition {name} is not managed: none of its jobs reaches the virtual cluster"


def _hides(before: MappedCluster, cluster: MappedCluster) -> bool:
    """Return whether each job of a VC belongs to one that stands before it."""
    lists = (
        (before.accounts, cluster.accounts),
        (before.qos, cluster.qos),
        (before.partitions, cluster.partitions),
    )
    return all(not first or (own and set(own) <= set(first)) for first, own in lists)


def _closed(cluster: MappedCluster, rules: SlurmRules, managed: Collection[str]) -> str:
    """Return why no managed partition accepts the jobs of a VC; "": one does."""
    names = [name for name in cluster.partitions or managed if name in managed and name in rules.partitions]
    partitions = [rules.partitions[name] for name in names]
    accounts, qos = set(cluster.accounts), set(cluster.qos)
    if accounts and partitions and not any(one.admits_account(name) for one in partitions for name in accounts):
        return f"no job reaches it: partition {named(names)} allows none of the accounts {named(sorted(accounts))}"
    if qos and partitions and not any(one.admits_qos(name) for one in partitions for name in qos):
        return f"no job reaches it: partition {named(names)} allows none of the QOS {named(sorted(qos))}"
    return ""


def nodes_without_cells(nodes: Sequence[SlurmNode], managed: Collection[str]) -> Iterator[Finding]:
    """Check that nodes with GPUs are in a managed partition; others have no cells."""
    out = [node.name for node in nodes if node.gpus and not set(node.partitions) & set(managed)]
    if out:
        verb, them = ("is", "it") if len(out) == 1 else ("are", "them")
        text = f"{named(out)} {verb} in no managed partition: no cell contains {them}"
        yield Finding(Level.ADVICE, "virtual clusters", text, "add the partition to `partitions`, or nothing")


def nodes_of_partitions(
    clusters: Sequence[MappedCluster], nodes: Sequence[SlurmNode], managed: Collection[str]
) -> Iterator[Finding]:
    """Check that the cells of a VC of some partitions can only be bound to nodes of these."""
    there = [node for node in nodes if node.gpus and set(node.partitions) & set(managed)]
    for cluster in clusters:
        possible = _possible(cluster.tenant)
        out = [
            node.name
            for node in there
            if cluster.partitions
            and not set(node.partitions) & set(cluster.partitions)
            and (possible is None or node.name in possible)
        ]
        if out:
            text = (
                f"its jobs are those of partition {named(sorted(cluster.partitions))}, and its cells may be bound to "
                f"{named(out)}, where these cannot run"
            )
            remedy = "leave out `partitions`, or name a GPU type or a cell type that only these nodes have"
            yield Finding(Level.RISK, f"virtual cluster {cluster.tenant.name}", text, remedy)


def _possible(tenant: DeclaredTenant) -> Collection[str] | None:
    """Return the nodes to which the cells of a VC can be bound; None: any, as not all are pinned."""
    if not all(cell.nodes for cell in tenant.cells):
        return None
    return {node for cell in tenant.cells for node in cell.nodes}
