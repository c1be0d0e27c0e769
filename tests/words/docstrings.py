"""Which public names have a docstring that starts with a summary sentence.

Public: modules, classes, functions and methods without a leading underscore, in modules and classes without one.
Summary sentence: the docstring's first paragraph starts on the first line, holds a finished sentence of at least two
words, and is not a list of fields ("rate: events per second"). A module's may start with the name of its command.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.words.trees import folder_of

_FIELD = re.compile(r"^[a-z_]+(?:, [a-z_]+)*: ")
_Def = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Documented:
    """One public name, and what its docstring lacks ("" for nothing)."""

    path: str
    line: int
    name: str
    lack: str

    @property
    def folder(self) -> str:
        return folder_of(self.path)


def documented_of(path: str, text: str) -> Iterator[Documented]:
    """Yield the public names of one file."""
    if any(part.startswith("_") and not part.startswith("__") for part in path.split("/")):
        return
    module = ast.parse(text)
    if module.body:
        yield Documented(path, 1, "module", _lack(module))
    yield from _members(path, module, "")


def share(names: list[Documented]) -> float:
    """Return the percentage of names with a summary sentence."""
    return round(100 * sum(not name.lack for name in names) / max(len(names), 1), 1)


def _members(path: str, parent: ast.Module | ast.ClassDef, prefix: str) -> Iterator[Documented]:
    for node in parent.body:
        if isinstance(node, _Def) and not node.name.startswith("_") and not _is_overload(node):
            yield Documented(path, node.lineno, prefix + node.name, _lack(node))
            if isinstance(node, ast.ClassDef):
                yield from _members(path, node, f"{prefix}{node.name}.")


def _is_overload(node: _Def) -> bool:
    return any(ast.unparse(decorator).split(".")[-1] in ("overload", "setter") for decorator in node.decorator_list)


def _lack(node: ast.Module | _Def) -> str:
    text = ast.get_docstring(node, clean=False)
    if not text:
        return "no docstring"
    summary = text.split("\n\n")[0]
    is_field = not isinstance(node, ast.Module) and _FIELD.match(summary)
    if not summary[:1].strip() or is_field or not re.search(r"\w\W+\w[^.:?!]*[.:?!]", summary, re.DOTALL):
        return "no summary sentence first"
    return ""
