"""Tenants from tables of a configuration, `[[virtual_cluster]]`, with the keys name, cells, opportunistic and policy.

Cells are a list of tables: cells = [{ level = "leaf", count = 1 }, { level = "node", count = 2, gpu_type = "h100" }]. A pinned cell
names its hardware: { level = "leaf", nodes = "gpu[05-08]" }, { level = "socket", nodes = "gpu09", gpus = "0-3" }.
`tenant_members.py` reads the keys that name the jobs of a tenant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tiresias.errors import UsageError
from tiresias.scheduler.host_lists import host_list, hosts
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant

KEYS = ("name", "cells", "opportunistic")
POLICY = "policy"
CELL_KEYS = ("level", "count", "gpu_type", "nodes", "gpus")
_MOST_CELLS = 10**9
_MOST_DIGITS = 4  # of the index of a GPU
_CELLS = 'cells = [{ level = "leaf", count = 2 }]'


def declared_tenant(table: Mapping[str, Any], further: Iterable[str] = ()) -> DeclaredTenant:
    """Return the tenant of one table.

    Args:
        table: Its keys and values, as TOML gives them.
        further: Keys that the caller reads itself.

    Raises:
        UsageError: A key is unknown or missing, or a value has another type. Whether the cells exist is checked against the nodes.
    """
    name = table.get("name")
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise UsageError(f"[[virtual_cluster]]: name = {repr(name)[:60]} is not possible; give a printable name")
    where = f"virtual cluster {name}"
    _check_keys(where, table, (*KEYS, *further))
    cells = table.get("cells")
    if not isinstance(cells, list) or not cells:
        raise UsageError(f"{where}: it owns no cells; give for example {_CELLS}")
    opportunistic = table.get("opportunistic", True)
    if not isinstance(opportunistic, bool):
        raise UsageError(f"{where}: opportunistic = {repr(opportunistic)[:60]} is not possible; allowed: true, false")
    return DeclaredTenant(name, tuple(_cells(where, each) for each in cells), opportunistic)


def policy_name(cluster: str, table: Mapping[str, Any], default: str, known: Iterable[str]) -> str:
    """Return the name of the policy that orders the jobs of a tenant.

    Args:
        cluster: Name of the tenant.
        table: Its keys and values.
        default: The name where the table has none.
        known: The names that are possible.

    Raises:
        UsageError: It is none of them.
    """
    name, names = table.get(POLICY, default), tuple(known)
    if not isinstance(name, str) or (POLICY in table and name not in names):
        raise UsageError(
            f"virtual cluster {cluster}: policy = {repr(name)[:60]} is not possible; allowed: {', '.join(names)}"
        )
    return name


def _cells(where: str, table: Any) -> DeclaredCells:
    if not isinstance(table, Mapping):
        raise UsageError(f"{where}: cells = {repr(table)[:60]} is not possible; give for example {_CELLS}")
    _check_keys(f"{where}: cells", table, CELL_KEYS)
    level, gpu_type = table.get("level"), table.get("gpu_type", "")
    if not isinstance(level, str) or not level or not level.isprintable():
        raise UsageError(
            f"{where}: level = {repr(level)[:60]} is not possible; give a level of the topology, such as node or leaf"
        )
    if not isinstance(gpu_type, str) or not gpu_type.isprintable():
        raise UsageError(f"{where}: gpu_type = {repr(gpu_type)[:60]} is not possible; give a GPU type as Slurm has it")
    if "nodes" in table or "gpus" in table:
        return _pinned(where, level, table)
    count = table.get("count")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= _MOST_CELLS:
        raise UsageError(
            f"{where}: count = {repr(count)[:60]} is not possible; give a whole number above 0, {_MOST_CELLS:,} at most"
        )
    return DeclaredCells(level, count, gpu_type)


def _pinned(where: str, level: str, table: Mapping[str, Any]) -> DeclaredCells:
    """Return a cell that names its hardware."""
    nodes, gpus = table.get("nodes"), table.get("gpus", "")
    if not isinstance(nodes, str) or not nodes.isprintable() or not hosts(nodes) or host_list(nodes)[1]:
        raise UsageError(
            f"{where}: nodes = {repr(nodes)[:60]} is not possible; give the nodes of one cell, such as gpu[05-08]"
        )
    if "count" in table and table["count"] != 1:
        raise UsageError(
            f"{where}: count = {repr(table['count'])[:60]} beside nodes = {nodes[:60]!r}; leave it out: they are one cell"
        )
    if table.get("gpu_type"):
        raise UsageError(f"{where}: gpu_type beside nodes = {nodes[:60]!r}; leave it out: the nodes have their type")
    indexes = hosts(f"[{gpus}]") if isinstance(gpus, str) and gpus else ()
    if (
        not isinstance(gpus, str)
        or (gpus and not indexes)
        or not all(index.isdecimal() and len(index) <= _MOST_DIGITS for index in indexes)
    ):
        raise UsageError(f"{where}: gpus = {repr(gpus)[:60]} is not possible; give indexes of GPUs, such as 0-3")
    return DeclaredCells(level, 1, "", hosts(nodes), tuple(map(int, indexes)))


def _check_keys(where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in table:
        if key not in known:
            raise UsageError(f"{where}: unknown key {repr(key)[:60]}; known: {', '.join(known)}")
