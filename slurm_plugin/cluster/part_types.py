"""GPU types that name the parts of a node, such as s0 and s1 of its sockets (placement.part_types). Pure.

A start selects the parts of its nodes by the type of the GPUs that it requests there. Slurm 24.11 and 26.05 let an update change
the type of a waiting job's GPUs; 22.05 does not (docs/explanation/placement.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from tiresias.slurm_plugin.backends.interface import SlurmNode

TYPES_CHANGE_FROM = (24, 11)  # the first release that was measured


def types_can_change(version: str) -> bool:
    """Return whether this Slurm lets an update change the type of a waiting job's GPUs."""
    numbers = [part for part in version.split(".")[:2] if part.isdecimal()]
    return len(numbers) == 2 and (int(numbers[0]), int(numbers[1])) >= TYPES_CHANGE_FROM


def selected_types(part_types: Sequence[str], version: str) -> tuple[str, ...]:
    """Return the types by which starts select parts under this Slurm; (): starts select none."""
    return tuple(part_types) if part_types and types_can_change(version) else ()


def named_parts(node: SlurmNode, part_types: Sequence[str]) -> int:
    """Return the number of parts of a node that GPU types name; 1: none.

    Its GPUs have the first types of the list, in its order, and each type the same number of GPUs.
    """
    types = [kind for kind, _ in node.gpus_by_type]
    counts = {count for _, count in node.gpus_by_type}
    in_order = bool(types) and types == list(part_types[: len(types)])
    return len(types) if in_order and counts == {node.gpus // len(types)} else 1
