"""Checks which jobs belong to no virtual cluster (VC): they wait for ever unless they may be preempted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from tiresias.slurm_plugin.backends.slurm_rules import Partition, SlurmRules
from tiresias.slurm_plugin.cluster.finding import Finding, Level, named
from tiresias.slurm_plugin.doctor.virtual_cluster_checks import MappedCluster

_REMEDY = "declare a [[virtual_cluster]] for them, or have their owners submit with tsbatch --opportunistic=restart"


def outside(clusters: Sequence[MappedCluster], rules: SlurmRules, managed: Collection[str]) -> Iterator[Finding]:
    """Check that each account, QOS and managed partition has a VC to which its jobs can belong.

    Not found are jobs that only their combination of these keeps out of all VCs.
    """
    partitions = [rules.partitions[name] for name in managed if name in rules.partitions]
    accounts = _admitted(_accounts(rules), partitions, Partition.admits_account)
    qos = _admitted(sorted(rules.qos), partitions, Partition.admits_qos)
    for kind, names, lists in (
        ("account", accounts, [each.accounts for each in clusters]),
        ("QOS", qos, [each.qos for each in clusters]),
        ("partition", sorted(managed), [each.partitions for each in clusters]),
    ):
        if out := [name for name in names if all(own and name not in own for own in lists)]:
            yield Finding(Level.RISK, "virtual clusters", _words(kind, out), _REMEDY)


def _words(kind: str, names: Sequence[str]) -> str:
    return (
        f"jobs of {kind} {named(names)} belong to none: they run opportunistically only, and those of sbatch, or not known "
        "to save, wait for ever"
    )


def _accounts(rules: SlurmRules) -> list[str]:
    """Return the accounts that have jobs: those with users of which Slurm reports limits, and those without further accounts."""
    above = {one.parent for one in rules.associations.values()}
    return sorted({account for account, user, _ in rules.associations if user or account not in above})


def _admitted(
    names: Sequence[str], partitions: Sequence[Partition], allows: Callable[[Partition, str], bool]
) -> list[str]:
    """Return the names whose jobs some partition admits."""
    return [name for name in names if not partitions or any(allows(each, name) for each in partitions)]
