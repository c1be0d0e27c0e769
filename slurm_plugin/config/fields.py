"""Fields of a section: each option states its default, its description, the allowed values and their check."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any

from tiresias.scheduler.stages import PLACEMENTS, TRIAL_ONLY


def option(default: object, doc: str, allowed: str, check: Callable[[Any], bool] = lambda value: True) -> Any:
    """Return a dataclass field for one option.

    Args:
        default: The default value.
        doc: The description in the reference.
        allowed: The allowed values, for messages.
        check: Whether a value of the right type is allowed.
    """
    return field(default=default, metadata={"doc": doc, "allowed": allowed, "check": check})


def choice(default: str, doc: str, *choices: str) -> Any:
    """Return a field for one of `choices`."""
    return option(default, doc, ", ".join(choices), lambda value: value in choices)


def placement(default: str, doc: str, *more: str) -> Any:
    """Return a field for one of `more`, of the built-in placements, or of those of installed packages."""
    choices = (*more, *(name for name in PLACEMENTS.built_in if name not in TRIAL_ONLY))

    def check(value: Any) -> bool:
        return value in choices or PLACEMENTS.is_plugin(value)

    return field(
        default=default,
        metadata={"doc": doc, "allowed": ", ".join(choices), "check": check, "names": lambda: PLACEMENTS},
    )


def seconds(default: float, doc: str, zero: bool = False) -> Any:
    """Return a field for a duration; `zero` is whether 0 is allowed."""
    allowed = "a finite number of seconds" + (", 0 or more" if zero else " above 0")
    return option(default, doc, allowed, lambda value: math.isfinite(value) and (value > 0 or (zero and value == 0)))


def folder(default: str, doc: str) -> Any:
    """Return a field for an absolute path."""
    return option(
        Path(default), doc, "an absolute path", lambda value: value.is_absolute() and str(value).isprintable()
    )


def are_partitions(names: tuple[str, ...]) -> bool:
    """Return whether these are names of partitions, one at least."""
    return bool(names) and are_names(names)


def are_names(names: tuple[str, ...]) -> bool:
    """Return whether these can be names in Slurm."""
    return all(name.isprintable() and name and not set(name) & set(" ,=*") for name in names)


def are_cluster_sockets(pairs: tuple[str, ...]) -> bool:
    """Return whether these are NAME=SOCKET each, with different names and absolute paths."""
    split = [pair.partition("=") for pair in pairs]
    names = [name for name, _, _ in split]
    return (
        len(set(names)) == len(names) and are_names(tuple(names)) and all(path.startswith("/") for _, _, path in split)
    )


def are_part_types(names: tuple[str, ...]) -> bool:
    """Return whether these can be the types of the GPUs of a node's parts: none, or several different ones."""
    return not names or (are_names(names) and 1 < len(names) == len(set(names)))


def are_levels(levels: tuple[str, ...]) -> bool:
    """Return whether these can be prefixes of node features, separated by "|"."""
    return all(part and not set(part) & set(" \t\n,") for level in levels for part in level.split("|"))
