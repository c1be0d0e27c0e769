"""Limits of Slurm that contradict a virtual cluster (VC): its jobs would wait, or be refused, although its cells are free. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tiresias.scheduler.tenants.quota_decision import shares
from tiresias.scheduler.virtual_clusters.cell_state import CellState
from tiresias.slurm_plugin.backends.slurm_rules import Association, Qos, SlurmRules, Tres
from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine
from tiresias.slurm_plugin.doctor.virtual_cluster_checks import MappedCluster

GPU = "gres/gpu"


@dataclass(frozen=True, slots=True)
class OwnedGpus:
    """GPUs that a VC owns.

    Attributes:
        gpus: GPUs of each TRES: gres/gpu, and gres/gpu:TYPE where nodes have types.
        cell_type, cell_gpus, cell_nodes: Type, GPUs and nodes of its largest cell.
        cell_tres: The TRES in which these GPUs are counted.
    """

    gpus: Mapping[str, float]
    cell_type: str
    cell_gpus: int
    cell_nodes: int
    cell_tres: tuple[str, ...]


def owned_gpus(state: CellState) -> dict[str, OwnedGpus]:
    """Return what each VC owns."""
    found = {}
    for name, share in shares(state).items():
        typed = {f"{GPU}:{kind}": float(gpus) for kind, gpus in zip(share.types, share.gpus, strict=True) if kind}
        tree = state.clusters[name]
        largest = max(
            tree.topmost,
            key=lambda cell: cell.chain.at(cell.level).leaves,
        )
        level = largest.chain.at(largest.level)
        nodes = max(level.leaves // largest.chain.at(largest.chain.node_level).leaves, 1)
        kind = largest.chain.leaf_type
        counted = (GPU, f"{GPU}:{kind}") if f"{GPU}:{kind}" in typed else (GPU,)
        gpus = {GPU: float(sum(share.gpus)), **typed}
        found[name] = OwnedGpus(gpus, level.cell_type, level.leaves, nodes, counted)
    return found


def limits(clusters: Sequence[MappedCluster], owned: Mapping[str, OwnedGpus], rules: SlurmRules) -> Iterator[Finding]:
    """Check the limits of the accounts, QOS and partitions of each VC."""
    count = 0
    for cluster in clusters:
        for text, remedy in _problems(cluster, owned[cluster.tenant.name], rules):
            count += 1
            yield Finding(Level.RISK, f"virtual cluster {cluster.tenant.name}", text, remedy)
    if clusters and not count:
        yield fine("virtual clusters", "no limit of their accounts, QOS and partitions is below their cells")


def _problems(cluster: MappedCluster, owned: OwnedGpus, rules: SlurmRules) -> Iterator[tuple[str, str]]:
    """Yield each limit below the cells, and the remedy."""
    if rules.enforce:
        yield from _of_accounts(cluster, owned, rules)
        for name in cluster.qos:
            if name in rules.qos:
                yield from _of_qos(rules.qos[name], owned, alone=len(cluster.qos) == 1)
    for name in cluster.partitions:
        partition = rules.partitions.get(name)
        if partition is not None and partition.max_nodes < owned.cell_nodes:
            yield (
                f"MaxNodes={partition.max_nodes:.0f} of partition {name} is below the {owned.cell_nodes} nodes of a "
                f"{owned.cell_type}: no job can use a whole one",
                f"MaxNodes={owned.cell_nodes}",
            )
        if partition is not None and rules.enforce and partition.qos in rules.qos:
            yield from _of_qos(rules.qos[partition.qos], owned, alone=len(cluster.partitions) == 1)


def _of_accounts(cluster: MappedCluster, owned: OwnedGpus, rules: SlurmRules) -> Iterator[tuple[str, str]]:
    chains = [rules.chain(name, "", "") for name in cluster.accounts]
    above = {one.account: one for chain in chains for one in chain}
    own = [chain[0] for chain in chains if chain]
    for tres, gpus in owned.gpus.items():
        yield from _of_group(tres, gpus, own)
        for name, one in above.items():
            if name not in cluster.accounts and one.grp_tres.get(tres, math.inf) < gpus:
                yield _below(f"account {name}, above its accounts", "GrpTRES", tres, one.grp_tres, gpus)
    for one in above.values():
        yield from _of_job(f"account {one.account}", one.max_tres, owned)


def _of_group(tres: str, gpus: float, own: Sequence[Association]) -> Iterator[tuple[str, str]]:
    """Yield the limit of all accounts of a VC together, where each of them has one."""
    allowed = [one.grp_tres.get(tres, math.inf) for one in own]
    if own and sum(allowed) < gpus:
        names = ", ".join(one.account for one in own)
        yield _below(f"account{'s' if len(own) > 1 else ''} {names}", "GrpTRES", tres, {tres: sum(allowed)}, gpus)


def _of_qos(qos: Qos, owned: OwnedGpus, *, alone: bool) -> Iterator[tuple[str, str]]:
    """Yield the limits of a QOS. `alone`: the jobs of the VC have no other one."""
    for tres, gpus in owned.gpus.items():
        if alone and qos.grp_tres.get(tres, math.inf) < gpus:
            yield _below(f"QOS {qos.name}", "GrpTRES", tres, qos.grp_tres, gpus)
    for limit, title in (
        (qos.max_tres, "MaxTRESPerJob"),
        (qos.max_tres_user, "MaxTRESPerUser"),
        (qos.max_tres_account, "MaxTRESPerAccount"),
    ):
        yield from _of_job(f"QOS {qos.name}", limit, owned, title)


def _of_job(of: str, limit: Tres, owned: OwnedGpus, title: str = "MaxTRESPerJob") -> Iterator[tuple[str, str]]:
    """Yield the limits of one job below the largest cell."""
    for tres in owned.cell_tres:
        if limit.get(tres, math.inf) < owned.cell_gpus:
            yield (
                f"{title}={tres}={limit[tres]:.0f} of {of} is below the {owned.cell_gpus} GPUs of a {owned.cell_type}: no job can "
                "use a whole one",
                f"{title}={tres}={owned.cell_gpus}, or smaller cells",
            )


def _below(of: str, title: str, tres: str, limit: Tres, gpus: float) -> tuple[str, str]:
    return (
        f"{title}={tres}={limit[tres]:.0f} of {of} is below the {gpus:.0f} GPUs of its cells: its jobs wait although cells "
        "are free",
        f"sacctmgr modify ... set {title}={tres}={gpus:.0f}, or fewer cells",
    )
