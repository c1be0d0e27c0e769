"""The mutations: those of cosmic-ray that change what code does, and the removal of a statement.

Mutated are statements inside functions. Type annotations, imports, module constants and dataclass fields stay: they hold words
and tuning values, of which no test should repeat the number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import parso
import parso.python.tree  # cosmic-ray fails to load its operators where it is the first to import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

COSMIC_RAY = (
    *(f"ReplaceComparisonOperator_{pair}" for pair in (
        "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Lt_GtE", "GtE_Lt", "Gt_LtE", "LtE_Gt", "Eq_NotEq", "NotEq_Eq",
        "Is_IsNot", "IsNot_Is",
    )),
    *(f"ReplaceBinaryOperator_{pair}" for pair in (
        "Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_Mul", "BitAnd_BitOr", "BitOr_BitAnd",
    )),
    "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub", "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue",
    "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer",
    "NumberReplacer", "ZeroIterationForLoop",
)  # fmt: skip
STATEMENTS = ("atom_expr", "expr_stmt", "raise_stmt")  # calls, assignments, raise


class RemoveStatement(Operator):
    """`pass` in place of a call, an assignment or a raise inside a function."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        if node.type == "simple_stmt" and node.children[0].type in STATEMENTS:
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: Any, _index: int) -> Any:
        prefix = node.get_first_leaf().prefix
        node.children[0] = parso.parse(f"{prefix}pass")
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


@dataclass(frozen=True, slots=True)
class Mutation:
    """The occurrence-th place at which `operator` can change a file, at `line`."""

    operator: str
    occurrence: int
    line: int

    def of(self, source: str) -> str | None:
        """The mutated source; None: it is no Python, or the same."""
        try:
            mutated = mutate_code(source, _operator(self.operator), self.occurrence)
        except AttributeError:  # cosmic-ray replaces plain names of exceptions alone
            return None
        if mutated is None or mutated == source:
            return None
        try:
            ast.parse(mutated)
        except SyntaxError:
            return None
        return str(mutated)


def mutations(source: str) -> list[Mutation]:
    allowed, tree = _places(source), get_ast(source)
    found = []
    for name in (*COSMIC_RAY, RemoveStatement.__name__):
        operator = _operator(name)
        positions = (start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node))
        found += [Mutation(name, number, start[0]) for number, start in enumerate(positions) if allowed(start)]
    return sorted(found, key=lambda one: (one.line, one.operator, one.occurrence))


def _operator(name: str) -> Any:
    return RemoveStatement() if name == RemoveStatement.__name__ else get_operator(f"core/{name}")()


def _places(source: str) -> Any:
    """Whether a (line, column) is inside of a function and not inside of an annotation."""
    nodes = list(ast.walk(ast.parse(source)))
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    bodies = [(_start(node.body[0]), _end(node)) for node in functions]
    notes = [getattr(node, "annotation", None) or getattr(node, "returns", None) for node in nodes]
    outside = [(_start(note), _end(note)) for note in notes if isinstance(note, ast.expr)]

    def allowed(place: tuple[int, int]) -> bool:
        inside = any(first <= place < last for first, last in bodies)
        return inside and not any(first <= place < last for first, last in outside)

    return allowed


def _start(node: Any) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: Any) -> tuple[int, int]:
    return node.end_lineno, node.end_col_offset
