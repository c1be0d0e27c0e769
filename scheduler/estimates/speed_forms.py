"""The forms of speed models: which terms a training step consists of, as a function of a job's size.

A step takes T = (C^g + X^g)^(1/g) seconds: C is the sum of the terms of computation, X that of communication, each term a
coefficient theta >= 0 times a column of the size. g = 1 is the sum of Optimus (EuroSys '18, equations 3 and 4); a larger g is
for communication that overlaps computation, up to the longer one of both. A form names the columns of a size (a, b, batch):

  - parameter servers: a servers, b workers;
  - all-reduce: a nodes, b GPUs on all of them together.

Equations 3 and 4 have a term for the workers per server, as all workers are assumed to send at the same time. ASYNCHRONOUS and
SYNCHRONOUS have one more, for the part of the transfer that depends on the servers alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tiresias.scheduler.elementwise import Values
from tiresias.scheduler.model import Floats

Columns = Callable[[Floats, Floats, Floats], tuple[Values, ...]]


@dataclass(frozen=True, slots=True)
class SpeedForm:
    """A form of speed models.

    Attributes:
        columns: The columns of sizes (a, b, batch), each an array of shape (sizes,).
        scaled: Of each column, whether its theta is expected in relation to the column's value for the typical measured size.
        computation: How many of the first columns are computation.
        expected: The expected theta of each column, as a part of the typical time of a step.
        spread: Standard deviation of each theta, as a part of the expected one.
        overlaps: The values of g that are considered.
        steps_a_worker: Each of the b workers makes steps of its own (equation 3); False: all make each step together.
    """

    columns: Columns
    scaled: tuple[bool, ...]
    computation: int
    expected: tuple[float, ...]
    spread: tuple[float, ...]
    overlaps: tuple[float, ...] = (1.0,)
    steps_a_worker: bool = False

    def matrix(self, sizes: Floats) -> Floats:
        """Return the columns of sizes, shape (sizes, 3): shape (sizes, columns)."""
        return np.stack(np.broadcast_arrays(*self.columns(*sizes.T)), axis=1).astype(np.float64)

    def scales(self, sizes: Floats) -> Floats:
        """Return what each column is divided by: its value for the geometric mean of the sizes, or 1."""
        typical = np.exp(np.log(sizes).mean(axis=0))
        return np.where(self.scaled, self.matrix(typical[None, :])[0], 1.0)

    def speed(self, sizes: Floats, seconds: Floats) -> Floats:
        """Return steps a second of the whole job from seconds a step."""
        return (sizes[:, 1] if self.steps_a_worker else 1.0) / seconds

    seconds = speed  # of a step, from steps a second of the whole job: the same formula


def _synchronous(servers: Floats, workers: Floats, batch: Floats) -> tuple[Values, ...]:
    return batch / workers, np.ones_like(workers), workers / servers, workers, servers


def _asynchronous(servers: Floats, workers: Floats, *_: Floats) -> tuple[Values, ...]:
    return np.ones_like(workers), workers / servers, workers, servers


def _and_by_servers(columns: Columns) -> Columns:
    return lambda servers, workers, batch: (*columns(servers, workers, batch), 1.0 / servers)


def _all_reduce(nodes: Floats, gpus: Floats, batch: Floats) -> tuple[Values, ...]:
    """Communication within a node; between nodes: any, and by the doublings of nodes and of GPUs a node. Between two nodes the time
    grows faster with the GPUs than between more, in all measurements that were looked at."""
    within, between, two = nodes == 1, nodes > 1, nodes == 2
    a_node = np.log2(np.maximum(gpus / nodes, 1.0))
    return (
        np.ones_like(batch), batch, within * a_node,
        1.0 * between, between * np.log2(nodes), between * a_node, two * np.log2(gpus),
    )  # fmt: skip


EQUATION_4 = SpeedForm(_synchronous, (True,) * 5, 2, (0.2,) * 5, (1.0,) * 5)
EQUATION_3 = SpeedForm(_asynchronous, (True,) * 4, 1, (0.25,) * 4, (1.0,) * 4, steps_a_worker=True)
SYNCHRONOUS = SpeedForm(_and_by_servers(_synchronous), (True,) * 6, 2, (0.2,) * 6, (1.0,) * 6)
ASYNCHRONOUS = SpeedForm(_and_by_servers(_asynchronous), (True,) * 5, 1, (0.2,) * 5, (1.0,) * 5, steps_a_worker=True)
ALL_REDUCE = SpeedForm(
    _all_reduce,
    scaled=(False, True, False, False, False, False, False),
    computation=2,
    expected=(0.2, 0.3, 0.1, 0.2, 0.15, 0.15, 0.15),
    spread=(1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5),
    overlaps=(1.0, 2.0, 4.0),
)
