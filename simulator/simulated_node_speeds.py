"""The speeds of simulated nodes: one line a node, CSV, gzip or not.

    node,slowness

The name of the node as `tiresias simulate` names it (node00000, node00001 ..., or that of the topology), and the seconds a step
there divided by those on the median node. Nodes that are not in the file have slowness 1. A job is as slow as its slowest node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Floats
from tiresias.simulator.formats import cells
from tiresias.simulator.formats.table import Layout, read_table, refuse
from tiresias.simulator.formats.trace_file import opened

MOST_SLOWNESS = 1000.0


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedNodeSpeeds:
    """The speeds of nodes, and how much models depend on them.

    Attributes:
        slowness: Of each node, shape (nodes,).
        sensitivity: By model, in lower case: the part of the logarithm of the slowness by which its steps are longer, 0 to 1; of a
            model that is not here 1.
    """

    slowness: Floats
    sensitivity: Mapping[str, float] = field(default_factory=dict)

    def sensitivity_of(self, model: str) -> float:
        """Return the sensitivity of a model."""
        return self.sensitivity.get(model.lower(), 1.0)

    def slowdown(self, model: str, nodes: Iterable[int]) -> float:
        """Return the seconds that a second of work takes on these nodes, one at least."""
        slowest = max(float(self.slowness[node]) for node in nodes)
        return float(slowest ** self.sensitivity_of(model))


def read_node_speeds(file: Path, names: Sequence[str]) -> Floats:
    """Return the slowness of each node, shape (nodes,).

    Args:
        file: The file.
        names: Of the nodes.

    Raises:
        UsageError: The file is unreadable, a slowness is impossible, a node is not there or occurs twice.
    """
    with opened(file, lambda rows: None) as source:
        table = read_table(source, Layout(numbers={"slowness": _slowness}, words={"node": cells.words}, closed=True))
    row = {name: at for at, name in enumerate(names)}
    found, seen = np.ones(len(names)), set[str]()
    for at, name in enumerate(table.words["node"]):
        if name not in row or name in seen:
            refuse(file, int(table.lines[at]), "node", name, _problem(name, names))
        seen.add(name)
        found[row[name]] = table.numbers["slowness"][at]
    return found


def _problem(name: str, names: Sequence[str]) -> str:
    if name in names:
        return "occurs twice; remove a line"
    return f"is no node; the nodes are {names[0]} to {names[-1]}"


def _slowness(values: Sequence[str]) -> Floats:
    found = cells.numbers(values)
    if not ((found >= 1.0 / MOST_SLOWNESS) & (found <= MOST_SLOWNESS)).all():
        raise ValueError(
            "is not possible; write the time of a step there divided by that on the median node, such as 1.2"
        )
    return found


def read_sensitivities(text: str) -> dict[str, float]:
    """Return the sensitivities that an option states, such as `googlenet=0,vgg16=0.5`.

    Raises:
        UsageError: A part is not MODEL=NUMBER with a number from 0 to 1, or a model occurs twice.
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        model, _, number = part.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not model or not 0.0 <= value <= 1.0 or model.lower() in found:
            raise UsageError(f"--speed-sensitivity {part[:40]!r}: give MODEL=NUMBER, each model once, with 0 to 1")
        found[model.lower()] = value
    return found
