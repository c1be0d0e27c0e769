"""The shape of the source: sizes of files and functions, folders, names used twice, suppressed checks."""

from __future__ import annotations

import ast
import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.words.trees import Tree

# File names that pytest and Python give, and not the project.
_GIVEN = {"__init__", "__main__", "conftest"}


def shape_of(tree: Tree) -> dict[str, dict[str, Any]]:
    """Return the figures of the packages and of the tests."""
    tests = {path: text for path, text in tree.texts.items() if path.endswith(".py") and path.startswith("tests/")}
    return {"packages": _figures(tree.programs), "tests": _figures(tests)}


def _figures(texts: dict[str, str]) -> dict[str, Any]:
    modules = {path: ast.parse(text) for path, text in texts.items()}
    sizes = {path: text.count("\n") for path, text in texts.items()}
    return {
        "files": len(texts),
        "folders": len({str(Path(path).parent) for path in texts}),
        **_sizes("a file", sizes.values()),
        **_sizes("a function", [size for module in modules.values() for size in _functions(module)]),
        "files over 300 lines": {path: size for path, size in sizes.items() if size > 300},
        "files under 20 lines": {
            path: size for path, size in sizes.items() if size < 20 and Path(path).stem not in _GIVEN
        },
        "module names used twice": _twice((Path(path).stem, path) for path in texts if Path(path).stem not in _GIVEN),
        "class names used twice": _twice((name, path) for path, module in modules.items() for name in _classes(module)),
        "fmt: skip": sum(text.count("# fmt: skip") for text in texts.values()),
        "type: ignore": sum(text.count("# type: ignore") for text in texts.values()),
    }


def _sizes(of_what: str, sizes: Iterable[int]) -> dict[str, int]:
    ordered = sorted(sizes) or [0]
    return {
        f"lines of {of_what}, median": int(statistics.median(ordered)),
        f"lines of {of_what}, 90th percentile": ordered[min(len(ordered) - 1, 9 * len(ordered) // 10)],
    }


def _functions(module: ast.Module) -> list[int]:
    found = [node for node in ast.walk(module) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return [(node.end_lineno or node.lineno) - node.lineno + 1 for node in found]


def _classes(module: ast.Module) -> list[str]:
    return [node.name for node in module.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def _twice(named: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for name, path in named:
        places[name].append(path)
    return {name: paths for name, paths in sorted(places.items()) if len(paths) > 1}
