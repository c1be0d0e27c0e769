"""Reads the network of a site: a tree of switches, from one of two kinds of files, gzip or not.

A table, one line for each server: its name, then its switches from the top to its leaf switch. A name of a switch counts below its
upper switch only. The header has any names, the first one `host`; they name the levels:

    host,core,pod,rack
    gpu01,c1,p1,r1

Slurm's topology.conf (topology/tree):

    SwitchName=leaf1 Nodes=gpu[01-08]
    SwitchName=top Switches=leaf[1-4]
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.host_lists import host_list
from tiresias.scheduler.topology_tree import LEAF
from tiresias.simulator.formats.trace_file import TraceFile, opened
from tiresias.simulator.topologies.network import MOST_SERVERS, Network
from tiresias.simulator.topologies.network_builder import NetworkBuilder, NetworkOptions

HOST = "host"
MOST_LEVELS = 8
_NAME = re.compile(r"[\w.:+-]{1,128}", re.ASCII)
_FIELD = re.compile(r"(\w+)=(\S+)")
_SWITCH = "switchname"
_CONF = re.compile(rf"^\s*{_SWITCH}\s*=", re.ASCII | re.IGNORECASE | re.MULTILINE)

Places = dict[str, tuple[str, ...]]  # server -> its switches, from the top to the leaf


def read_site(file: Path, options: NetworkOptions) -> Network:
    """Return the network of a file.

    Args:
        file: The file.
        options: Bandwidths by tier, from the servers up, and kinds of servers.

    Raises:
        UsageError: The file cannot be read, has no servers or too many, names a server twice or a switch that is not there.
    """
    with opened(file, lambda rows: None) as source:
        is_conf = _CONF.search(source.head) is not None
        levels, places = _of_conf(source) if is_conf else _of_table(source)
    if not places:
        raise UsageError(f"{file}: has no servers; give each one a line, or a Nodes= of a switch")
    return _network(file.name, levels, places, options)


def _of_table(source: TraceFile) -> tuple[tuple[str, ...], Places]:
    rows = csv.reader(source.lines())
    header = [name.strip() for name in next(rows, [])]
    if not 2 <= len(header) <= MOST_LEVELS + 1 or header[0].lower() != HOST or len(set(header)) < len(header):
        raise UsageError(f"{source.file}: line 1: is no header; write {HOST} and 1 to {MOST_LEVELS} levels of switches")
    places: Places = {}
    for line, cells in enumerate(rows, 2):
        if cells:
            _add(source.file, line, cells, len(header), places)
    return tuple(header[1:]), places


def _add(file: Path, line: int, cells: Sequence[str], width: int, places: Places) -> None:
    names = [cell.strip() for cell in cells]
    wrong = next((name for name in names if not _NAME.fullmatch(name)), None)
    if len(names) != width:
        raise UsageError(f"{file}: line {line}: {len(names)} cells for {width} columns; is the file cut short?")
    if wrong is not None:
        raise UsageError(f"{file}: line {line}: {wrong[:40]!r} is no name; use letters, digits and _ . : + -")
    if names[0] in places:
        raise UsageError(f"{file}: line {line}: server {names[0]} occurs twice; remove one")
    if len(places) == MOST_SERVERS:
        raise UsageError(f"{file}: has more than {MOST_SERVERS:,} servers; cut it into parts")
    places[names[0]] = tuple(names[1:])


def _of_conf(source: TraceFile) -> tuple[tuple[str, ...], Places]:
    """Servers must have equally many switches above them."""
    nodes: dict[str, tuple[str, ...]] = {}
    above: dict[str, str] = {}
    for name, fields in _switches(source):
        if name in nodes:
            raise UsageError(f"{source.file}: switch {name} occurs twice; remove one")
        if len(nodes) == MOST_SERVERS:
            raise UsageError(f"{source.file}: has more than {MOST_SERVERS:,} switches; cut it into parts")
        nodes[name] = _hosts(source.file, fields.get("nodes", ""))
        for below in _hosts(source.file, fields.get("switches", "")):
            if above.setdefault(below, name) != name:
                raise UsageError(f"{source.file}: switch {below} is below {above[below]} and {name}; remove one")
    unknown = next((name for name in above if name not in nodes), None)
    if unknown is not None:
        raise UsageError(f"{source.file}: switch {unknown[:40]} has no line; add SwitchName={unknown[:40]}")
    return _places(source.file, nodes, above)


def _switches(source: TraceFile) -> Iterator[tuple[str, dict[str, str]]]:
    for line in source.lines():
        fields = {key.lower(): value for key, value in _FIELD.findall(line.partition("#")[0])}
        if fields.get(_SWITCH):
            for name in _hosts(source.file, fields[_SWITCH]):
                yield name, fields


def _hosts(file: Path, text: str) -> tuple[str, ...]:
    names, cut = host_list(text)
    if cut or len(names) > MOST_SERVERS:
        raise UsageError(f"{file}: {text[:40]} names more than {MOST_SERVERS:,} servers; cut the file into parts")
    wrong = next((name for name in names if not _NAME.fullmatch(name)), None)
    if wrong is not None:
        raise UsageError(f"{file}: {wrong[:40]!r} is no name; use letters, digits and _ . : + -")
    return names


def _places(file: Path, nodes: dict[str, tuple[str, ...]], above: dict[str, str]) -> tuple[tuple[str, ...], Places]:
    places: Places = {}
    for switch, names in nodes.items():
        path = _path(file, switch, above) if names else ()
        for name in names:
            if name in places:
                raise UsageError(
                    f"{file}: server {name} is below two switches, {places[name][-1]} and {switch}; remove one"
                )
            places[name] = path
    depths = {len(path) for path in places.values()}
    if len(depths) > 1:
        raise UsageError(
            f"{file}: servers have {min(depths)} to {max(depths)} levels of switches; give all equally many"
        )
    depth = max(depths, default=0)
    return tuple(f"tier{height}" for height in range(depth, 0, -1)), places


def _path(file: Path, switch: str, above: dict[str, str]) -> tuple[str, ...]:
    found = [switch]
    while found[-1] in above:
        found.append(above[found[-1]])
        if len(found) > MOST_LEVELS:
            raise UsageError(f"{file}: switch {switch} has more than {MOST_LEVELS} levels above it; is there a circle?")
    return tuple(found[::-1])


def _network(name: str, levels: tuple[str, ...], places: Places, options: NetworkOptions) -> Network:
    """Return the tree; a switch is named by its path. Several top switches are connected by one that stands above them."""
    of = {path: row for row, path in enumerate(_paths(places))}
    order = sorted(places, key=lambda server: of[places[server]])
    builder = NetworkBuilder(name, order, options)
    depth = len(levels)
    switches = {path: builder.switch("/".join(path)) for path in of}
    tops = [path for path in switches if len(path) == 1]
    for row, server in enumerate(order):
        builder.connect(row, switches[places[server]], 0)
    for path, end in switches.items():
        if len(path) > 1:
            builder.connect(end, switches[path[:-1]], depth - len(path) + 1)
    if len(tops) > 1:
        joined = builder.switch("(top)")
        for path in tops:
            builder.connect(switches[path], joined, depth)
    return builder.network(_groups(levels, [places[server] for server in order]))


def _paths(places: Places) -> list[tuple[str, ...]]:
    """Return the path of each switch, those of one upper switch together, in the order of the file."""
    first: dict[tuple[str, ...], tuple[int, ...]] = {(): ()}
    for row, path in enumerate(dict.fromkeys(places.values())):
        for end in range(1, len(path) + 1):
            first.setdefault(path[:end], (*first[path[: end - 1]], row))
    return sorted((path for path in first if path), key=first.__getitem__)


def _groups(
    levels: tuple[str, ...], paths: Sequence[tuple[str, ...]]
) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    found = {}
    for end in range(len(levels), 0, -1):
        number: dict[tuple[str, ...], int] = {}
        rows = [number.setdefault(path[:end], len(number)) for path in paths]
        found[LEAF if end == len(levels) else levels[end - 1]] = np.array(rows, np.int64)
    return found
