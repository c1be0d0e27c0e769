"""Writes versions of formulas for one job, with types for a compiler: a formula itself takes one job or all of them.

    def change(jobs: Rows, now: float) -> Values:
        return where(jobs.state == _RUNNING, now + end_of(jobs.ran), math.inf)

becomes

    def change(jobs: Rows, now: float) -> Values:
        if isinstance(jobs, SimulatedJob):
            return change_of_one(jobs, now)
        return where(jobs.state == _RUNNING, now + end_of(jobs.ran), math.inf)

    def change_of_one(jobs: SimulatedJob, now: float) -> Values:
        return now + end_of_of_one(jobs.ran) if jobs.state == _RUNNING else math.inf

A formula is a function of a module with a parameter of the type `Rows` or `Values`. Methods are left as they are: those of a
package's policy may replace them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path

_SUFFIX = "_of_one"
_JOB = "SimulatedJob"
_PACKAGE = "tiresias"
# What the versions need. The module of `SimulatedJob` imports these modules: so only the type checker imports it here.
_NEEDED = f"""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from {_PACKAGE}.simulator.simulated_job import {_JOB}

def _bisect(limits: tuple[float, ...], value: float) -> int:
    \"""As `bisect.bisect_right`; compiled, it compares numbers and not objects.\"""
    low, high = 0, len(limits)
    while low < high:
        middle = (low + high) // 2
        if value < limits[middle]:
            high = middle
        else:
            low = middle + 1
    return low
"""
# Functions of `elementwise` with their meaning for one job. The operands of max and min are in the order that treats nan alike.
_ONE_JOB = {
    "where": "{1} if {0} else {2}",
    "larger": "max({1}, {0})",
    "smaller": "min({1}, {0})",
    "rounded": "round({0}, {1})",
    "to_millisecond": "round({0} * 1000.0) / 1000.0",
    "interval": "_bisect({0}, {1})",
    "pick": "{0}[{1}]",
}


def add_versions(folder: Path, modules: Iterable[str]) -> None:
    """Add the versions for one job to modules of the package, files relative to `folder`/tiresias."""
    trees = {_name(module): (folder / _PACKAGE / module, _parsed(folder / _PACKAGE / module)) for module in modules}
    formulas = {name: set(_formulas(tree)) for name, (_, tree) in trees.items()}
    for name, (file, tree) in trees.items():
        file.write_text(ast.unparse(_with_versions(tree, formulas, formulas[name])))


def _name(module: str) -> str:
    return f"{_PACKAGE}.{module.removesuffix('.py').replace('/', '.')}"


def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def _formulas(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    functions = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
    return {each.name: each for each in functions if {"Rows", "Values"} & {_type(one) for one in each.args.args}}


def _type(parameter: ast.arg) -> str:
    return ast.unparse(parameter.annotation) if parameter.annotation else ""


def _with_versions(tree: ast.Module, formulas: Mapping[str, set[str]], own: set[str]) -> ast.Module:
    """Return the module with the versions; `formulas`: of each module, `own`: of this one."""
    known, body = set(own), list[ast.stmt]()
    for each in tree.body:
        if isinstance(each, ast.ImportFrom):
            imported = formulas.get(each.module or "", set()) & {alias.name for alias in each.names}
            each.names += [ast.alias(name + _SUFFIX) for name in sorted(imported)]
            known |= imported
        body.append(each)
    for function in _formulas(tree).values():
        body.insert(body.index(function) + 1, _of_one(function, known))
        _choose_version(function)
    at = max(place for place, each in enumerate(body) if isinstance(each, ast.Import | ast.ImportFrom)) + 1
    return ast.fix_missing_locations(ast.Module([*body[:at], *ast.parse(_NEEDED).body, *body[at:]], []))


def _of_one(function: ast.FunctionDef, known: set[str]) -> ast.FunctionDef:
    version = deepcopy(function)
    version.name += _SUFFIX
    for parameter in version.args.args:
        if _type(parameter) == "Rows":
            parameter.annotation = ast.Name(_JOB)
    version.body = [_OneJob(known).visit(each) for each in version.body]
    return version


def _choose_version(function: ast.FunctionDef) -> None:
    """Let the formula call its version for one job if it is called with one."""
    names = [each.arg for each in function.args.args]
    for parameter in function.args.args:
        if _type(parameter) == "Rows":
            call = f"{function.name}{_SUFFIX}({', '.join(names)})"
            choice = ast.parse(f"if isinstance({parameter.arg}, {_JOB}):\n    return {call}").body
            documented = ast.get_docstring(function) is not None
            function.body[documented:documented] = choice


class _OneJob(ast.NodeTransformer):
    """Replaces calls of `elementwise` and of formulas. `known`: names of the formulas that have a version for one job."""

    def __init__(self, known: set[str]) -> None:
        self._known = known

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.keywords:
            return node
        name, arguments = node.func.id, [f"({ast.unparse(each)})" for each in node.args]
        if name in _ONE_JOB:
            return _expression(_ONE_JOB[name].format(*arguments))
        if name == "either":
            yes, no, of = self._version(node.args[1]), self._version(node.args[2]), ", ".join(arguments[3:])
            return _expression(f"{yes}({of}) if {arguments[0]} else {no}({of})")
        if name == "known" and isinstance(node.args[0], ast.Name | ast.Attribute):
            return _expression("{0} if {0} == {0} else {1}".format(*arguments))
        node.func.id = self._version(node.func)
        return node

    def _version(self, function: ast.expr) -> str:
        name = ast.unparse(function)
        return name + _SUFFIX if name in self._known else name


def _expression(text: str) -> ast.expr:
    return ast.parse(f"({text})", mode="eval").body
