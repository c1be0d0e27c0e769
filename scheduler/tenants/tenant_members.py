"""Which jobs belong to a virtual cluster (VC): the keys accounts, qos and partitions of its table `[[virtual_cluster]]`.

A job belongs to the first table, in their order, all of whose lists have the job's account, QOS or partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tiresias.errors import UsageError

MEMBER_KEYS = ("accounts", "qos", "partitions")
_SINGULAR = dict(zip(MEMBER_KEYS, ("account", "QOS", "partition"), strict=True))


@dataclass(frozen=True, slots=True)
class TenantMembers:
    """The jobs of one VC.

    Attributes:
        accounts: Names of Slurm's accounts; (): any.
        qos: Names of QOS; (): any.
        partitions: Names of partitions; (): any.
    """

    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether any list is given."""
        return bool(self.accounts or self.qos or self.partitions)

    def has(self, account: str, qos: str, partition: str) -> bool:
        """Return whether a job belongs here. `partition`: of a job with several, all of them, separated by commas."""
        return (
            (not self.accounts or account in self.accounts)
            and (not self.qos or qos in self.qos)
            and (not self.partitions or set(self.partitions).issuperset(partition.split(",")))
        )


def tenant_members(cluster: str, table: Mapping[str, Any]) -> TenantMembers:
    """Return the jobs of a VC from its table.

    Raises:
        UsageError: A list is no list of names.
    """
    return TenantMembers(**{key: _names(cluster, key, table[key]) for key in MEMBER_KEYS if key in table})


def check_members(members: Mapping[str, TenantMembers]) -> None:
    """Check that no two VCs claim one account, QOS or partition, unless another list of both keeps their jobs apart.

    Raises:
        UsageError: Two VCs claim it.
    """
    for (one, first), (other, second) in combinations(members.items(), 2):
        shared = {key: set(getattr(first, key)) & set(getattr(second, key)) for key in MEMBER_KEYS}
        apart = any(getattr(first, key) and getattr(second, key) and not shared[key] for key in MEMBER_KEYS)
        for key, both in shared.items():
            if both and not apart:
                raise UsageError(
                    f"virtual clusters {one} and {other} both claim {_SINGULAR[key]} {min(both)}; give it to one of them, or "
                    "keep them apart by another list"
                )


def _names(cluster: str, key: str, value: Any) -> tuple[str, ...]:
    names: Sequence[Any] = value if isinstance(value, list) else ()
    if not names or not all(isinstance(name, str) and _is_name(name) for name in names):
        raise UsageError(f"virtual cluster {cluster}: {key} = {repr(value)[:60]} is not possible; give a list of names")
    return tuple(names)


def _is_name(name: str) -> bool:
    return bool(name) and name.isprintable() and not set(name) & set(" ,=*")
