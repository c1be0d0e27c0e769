"""Reads samples of interference: one line a sample, CSV, gzip or not.

    seconds,seconds_alone,cpu,cpu_same_socket,cpu_other_sockets,memory,memory_others,pcie,pcie_others,network,network_others

The time of a step beside others, its time alone, and the use of each part of the node as in `Contention`, each as a part of the
capacity. The first four columns are needed; the others are 0 where they are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.estimates.interference import MOST_SLOWDOWN, Contention, cpu_of_others
from tiresias.scheduler.model import Floats
from tiresias.simulator.formats.cells import numbers
from tiresias.simulator.formats.table import Layout, Table, read_table, refuse
from tiresias.simulator.formats.trace_file import opened

LEAST_SAMPLES = 5
_MOST_USE = 1000.0  # times the capacity: more is a mistake of the unit
_TIMES = ("seconds", "seconds_alone")
_NEEDED = (*_TIMES, "cpu", "cpu_same_socket")
_OTHER_PARTS = ("memory", "memory_others", "pcie", "pcie_others", "network", "network_others")


class InterferenceSamples(NamedTuple):
    """Samples of a file.

    Attributes:
        contention: The use of shared parts of the node.
        slowdown: Time of a step beside the others divided by its time alone, shape (samples,).
    """

    contention: Contention
    slowdown: Floats


def read_samples(file: Path) -> InterferenceSamples:
    """Return the samples of a file.

    Raises:
        UsageError: The file is unreadable or too short, or a number is impossible.
    """
    with opened(file, lambda rows: None) as source:
        table = read_table(source, _layout())
    if len(table.lines) < LEAST_SAMPLES:
        raise UsageError(f"{file}: has {len(table.lines)} samples; a fit needs {LEAST_SAMPLES} or more")
    return InterferenceSamples(_contention(table), _slowdown(file, table))


def _layout() -> Layout:
    optional = ("cpu_other_sockets", *_OTHER_PARTS)
    uses = (*_NEEDED[len(_TIMES) :], *optional)
    converters: dict[str, Callable[[Sequence[str]], Floats]] = dict.fromkeys(_TIMES, _step_seconds)
    converters |= dict.fromkeys(uses, _uses)
    return Layout(numbers=converters, words={}, optional=frozenset(optional), closed=True)


def _step_seconds(cells: Sequence[str]) -> Floats:
    values = numbers(cells)
    if not (values > 0.0).all():
        raise ValueError("is not possible; write the seconds of a step, above 0, or remove the line")
    return values


def _uses(cells: Sequence[str]) -> Floats:
    values = numbers(cells)
    if not ((values >= 0.0) & (values <= _MOST_USE)).all():
        raise ValueError("is not possible; write the use as a part of the capacity, such as 0.5")
    return values


def _contention(table: Table) -> Contention:
    nothing = np.zeros(len(table.lines))
    cpu_others = cpu_of_others(table.numbers["cpu_same_socket"], table.numbers.get("cpu_other_sockets", nothing))
    return Contention(table.numbers["cpu"], cpu_others, *(table.numbers.get(name, nothing) for name in _OTHER_PARTS))


def _slowdown(file: Path, table: Table) -> Floats:
    slowdown = table.numbers["seconds"] / table.numbers["seconds_alone"]
    absurd = np.flatnonzero((slowdown >= MOST_SLOWDOWN) | (slowdown <= 1.0 / MOST_SLOWDOWN))
    if len(absurd):
        row = int(absurd[0])
        cell, why = f"{table.numbers['seconds'][row]:g}", f"is more than {MOST_SLOWDOWN:.0f} times off the step alone"
        refuse(file, int(table.lines[row]), "seconds", cell, f"{why}; remove the line")
    return slowdown
