"""The import graph of the source tree, computed without importing anything; a command that prints it.

    python tests/layers/import_graph.py [FOLDER ...] [--json] [--statements]

A unit is a subfolder of a top-level folder, or a module that lies directly in it. Imports inside functions and inside
`if TYPE_CHECKING` count as any other. Exit code 1: there is a cycle. test_layers.py holds which folder may import which.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "tiresias"
FOLDERS = tuple(sorted(path.name for path in (ROOT / "src" / NAMESPACE).iterdir() if path.is_symlink()))

Graph = Mapping[str, set[str]]


class Import(NamedTuple):
    """One import of a module of this project.

    Attributes:
        file: The importing file, relative to the root.
        line: The line of the statement.
        module: The imported module, as a path of names below the namespace: ("scheduler", "decide").
    """

    file: Path
    line: int
    module: tuple[str, ...]


@cache
def imports(folder: str, root: Path = ROOT) -> tuple[Import, ...]:
    """Return every import of the project's own modules in the files of `folder`."""
    return tuple(_imports(folder, root))


def _imports(folder: str, root: Path) -> Iterator[Import]:
    for file in sorted((root / folder).rglob("*.py")):
        for line, name in _names(ast.parse(file.read_text(encoding="utf-8"))):
            first, *rest = name.split(".")
            if first == NAMESPACE and rest:
                yield Import(file.relative_to(root), line, _module(tuple(rest), root))


def between_folders(root: Path = ROOT, folders: tuple[str, ...] = FOLDERS) -> dict[str, set[str]]:
    """Return which of `folders` each folder imports."""
    return {folder: {each.module[0] for each in imports(folder, root)} & set(folders) - {folder} for folder in folders}


def between_units(folder: str, root: Path = ROOT) -> dict[str, set[str]]:
    """Return which units of `folder` each of its units imports."""
    graph: dict[str, set[str]] = {unit: set() for unit in _units(folder, root)}
    for each in imports(folder, root):
        here, there = unit_of(each.file), _imported_unit(each)
        if there in graph and there != here:
            graph[here].add(there)
    return graph


def unit_of(file: Path) -> str:
    """Return the unit of a file that is given relative to the root: its subfolder, else its own name."""
    return file.parts[1] if len(file.parts) > 2 else file.stem


def cycles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components of more than one unit, each sorted by name."""
    reach = {start: _reachable(graph, start) for start in graph}
    components = {frozenset({one, *(two for two in reach[one] if one in reach[two])}) for one in graph}
    return sorted(sorted(component) for component in components if len(component) > 1)


def levels(graph: Graph) -> list[list[str]]:
    """Return the units in layers, each importing only units of the layers before it; without cycles."""
    left, found = {unit: set(graph[unit]) for unit in graph}, []
    while ready := sorted(unit for unit, needs in left.items() if not needs & left.keys()):
        found.append(ready)
        left = {unit: needs for unit, needs in left.items() if unit not in ready}
    return found


def statements(folder: str, one: str, two: str, root: Path = ROOT) -> list[Import]:
    """Return the imports of unit `two` in the files of unit `one`."""
    return [each for each in imports(folder, root) if unit_of(each.file) == one and _imported_unit(each) == two]


def _reachable(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    todo = [start]
    while todo:
        for unit in graph[todo.pop()] - found:
            found.add(unit)
            todo.append(unit)
    return found


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            raise ValueError(f"line {node.lineno}: relative import")


def _module(names: tuple[str, ...], root: Path) -> tuple[str, ...]:
    """Return the names that are folders and modules; the last of an import may be a class or function."""
    for end in range(len(names), 1, -1):
        path = root.joinpath(*names[:end])
        if path.is_dir() or path.with_suffix(".py").is_file():
            return names[:end]
    return names[:1]


def _imported_unit(each: Import) -> str:
    same = each.module[0] == each.file.parts[0]
    return (each.module[1] if len(each.module) > 1 else "__init__") if same else ""


def _units(folder: str, root: Path) -> list[str]:
    return sorted({unit_of(file.relative_to(root)) for file in (root / folder).rglob("*.py")})


def main(argv: list[str] | None = None) -> int:
    """Print the graph; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="top-level folders; default: all")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--statements", action="store_true", help="print the statements of each edge in a cycle")
    args = parser.parse_args(argv)
    graphs: dict[str, Graph] = {folder: between_units(folder) for folder in args.folders or FOLDERS}
    graphs = {".": between_folders(), **graphs}
    found = {name: cycles(graph) for name, graph in graphs.items()}
    if args.json:
        print(json.dumps({"graphs": _plain(graphs), "cycles": found}, indent=2))
    else:
        for name, graph in graphs.items():
            _print(name, graph, found[name], args.statements)
        print(f"{sum(map(len, found.values()))} cycles")
    return 1 if any(found.values()) else 0


def _plain(graphs: Mapping[str, Graph]) -> dict[str, dict[str, list[str]]]:
    return {name: {unit: sorted(graph[unit]) for unit in sorted(graph)} for name, graph in graphs.items()}


def _print(name: str, graph: Graph, found: list[list[str]], with_statements: bool) -> None:
    print("between folders:" if name == "." else f"{name}/:")
    order = [unit for level in levels(graph) for unit in level]
    for unit in order + sorted(graph.keys() - set(order)):
        print(f"  {unit} -> {', '.join(sorted(graph[unit])) or '-'}")
    for cycle in found:
        print(f"  CYCLE of {len(cycle)}: {', '.join(cycle)}")
        if with_statements and name != ".":
            _print_statements(name, graph, cycle)


def _print_statements(folder: str, graph: Graph, cycle: list[str]) -> None:
    by_edge: dict[tuple[str, str], list[Import]] = defaultdict(list)
    for one in cycle:
        for two in sorted(graph[one] & set(cycle)):
            by_edge[one, two] = statements(folder, one, two)
    for (one, two), found in sorted(by_edge.items(), key=lambda item: len(item[1])):
        for each in found:
            print(f"    {one} -> {two}: {each.file}:{each.line} {'.'.join(each.module)}")


if __name__ == "__main__":
    sys.exit(main())
