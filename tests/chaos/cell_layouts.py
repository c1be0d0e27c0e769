"""The tables [[virtual_cluster]] that a campaign writes into the configuration file, valid and invalid ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.chaos.tenants import NODES, Tenant

Tables = Sequence[dict[str, Any]]
TAKES = r"virtual cluster (\w+): job (\w+)( and \d+ more)? runs? in cells that this change takes from it"


@dataclass(frozen=True, slots=True)
class Layout:
    """What the virtual clusters (VCs) own by one version of the file.

    Attributes:
        name: Of the layout.
        tenants: Its VCs; {} where it is invalid.
        tables: As in the file.
        refusal: A pattern of the line that refuses it; "": it is valid.
    """

    name: str
    tenants: Mapping[str, Tenant]
    tables: Tables
    refusal: str = ""

    @property
    def owned(self) -> Mapping[str, Mapping[str, int]]:
        """The numbers of cells of each VC by level, as the controller is to publish them."""
        return {table["name"]: {each["level"]: each["count"] for each in table["cells"]} for table in self.tables}

    def shrinks(self, name: str, after: Layout) -> bool:
        """Return whether a VC owns fewer or other cells in the layout that follows."""
        own, other = self.tenants.get(name), after.tenants.get(name)
        if own is None or other is None:
            return own is not None
        return other.nodes < own.nodes or other.in_one_rack != own.in_one_rack


def layouts(base: Mapping[str, Tenant]) -> dict[str, Layout]:
    """Return all layouts by name. base: a VC of a rack, and two of nodes or their sockets."""
    racked = next(tenant for tenant in base.values() if tenant.in_one_rack)
    one, other = (tenant for tenant in base.values() if not tenant.in_one_rack)
    spare = NODES - sum(tenant.nodes for tenant in base.values())
    changes: dict[str, tuple[Tenant | None, ...]] = {
        "base": (),
        "moved": (_of(one, -1), _of(other, 1)),
        "moved back": (_of(one, 1), _of(other, -1)),
        "grown": (_of(other, spare),),
        "small": (_of(one, 1 - one.nodes),),
        "nodes": (replace(racked, in_one_rack=False),),
        "fifo": (replace(one, policy="fifo"), replace(racked, policy="fifo")),
    }
    valid = [_valid(name, base, [one for one in changed if one]) for name, changed in changes.items()]
    without = [_without(name, base) for name in base]
    return {each.name: each for each in (*valid, *without, *_invalid(base, racked, one, other))}


def _without(removed: str, base: Mapping[str, Tenant]) -> Layout:
    left = {name: tenant for name, tenant in base.items() if name != removed}
    return Layout(f"without {removed}", left, [tenant.table for tenant in left.values()])


def _of(tenant: Tenant, more: int) -> Tenant:
    return replace(tenant, nodes=tenant.nodes + more)


def _valid(name: str, base: Mapping[str, Tenant], changed: Sequence[Tenant]) -> Layout:
    tenants = {**base, **{tenant.name: tenant for tenant in changed}}
    return Layout(name, tenants, [tenant.table for tenant in tenants.values()])


def _invalid(base: Mapping[str, Tenant], racked: Tenant, one: Tenant, other: Tenant) -> list[Layout]:
    def changed(tenant: Tenant, **keys: Any) -> Tables:
        return [each.table | (keys if each is tenant else {}) for each in base.values()]

    def owns(level: str, count: int) -> list[dict[str, Any]]:
        return [{"level": level, "count": count}]

    both = rf"virtual clusters \w+ and \w+ both claim account {one.name}"
    return [
        Layout("too many", {}, changed(other, cells=owns("node", NODES)), r"virtual clusters own \d+ cells of type node"),
        Layout("too many racks", {}, changed(racked, cells=owns("leaf", NODES)), r"virtual clusters own \d+ cells of type leaf"),
        Layout("account twice", {}, changed(other, accounts=[other.name, one.name]), both),
        Layout("no cells", {}, changed(one, cells=owns("node", 0)), rf"virtual cluster {one.name}: .*count"),
        Layout("unknown level", {}, changed(racked, cells=owns("pod", 1)), rf"virtual cluster {racked.name}: .*pod"),
    ]  # fmt: skip
