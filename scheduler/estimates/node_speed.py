"""The speed of nodes relative to each other, from the seconds a step of runs.

    log(seconds) = level of the runs alike + sensitivity of their kind x log slowness of the slowest node + noise

A synchronous job is as slow as its slowest node. Runs of a kind of jobs with as many GPUs, nodes and jobs on these nodes have one
level. A kind is as slow there as most kinds are (sensitivity 1), half as much, or not at all (0), as a program that waits for its
data is: PAL (Jain et al., SC '24) has such classes of programs, from their use of the GPUs. Here a kind is less sensitive only if
its runs surely show it. The slowness of a node is relative to the median node; runs count with 2^(-age / HALF_LIFE_S).

The model is fitted by weighted means in turn, with Huber's weights, which limit the effect of outliers. The first sensitivities are
chosen as if all kinds had the same noise: otherwise the steady runs of kinds that no node slows would count most before it is known
that they show nothing of nodes, and all nodes would count as equal. The logarithm of the
slowness is shrunk towards 0, as if it were normally distributed with the deviation PRIOR. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.estimates.speed_samples import SpeedSample
from tiresias.scheduler.model import Bools, Floats, Ints

HALF_LIFE_S = 4 * 86400.0
PRIOR = 0.15  # deviation of the logarithm of the slowness of nodes
SENSITIVITIES = (1.0, 0.5, 0.0)
_ROUNDS = 40  # of weighted means, at most
_SETTLED = 1e-4  # change of the slowness of all nodes after which the means are final
_PASSES = 3  # over the sensitivities, at most
_HUBER = 1.5  # deviations from which a residual counts less
_LEAST_DEVIATION = 0.005  # of the noise
_PRIOR_SAMPLES = 5.0  # of all kinds, that count for the noise of a kind
_NORMAL = 1.4826  # the deviation of normal noise through its median absolute value
_CERTAIN = 2.0  # standard errors


class SpeedRows(NamedTuple):
    """Samples in columns; of shape (samples,) if not stated otherwise.

    Attributes:
        level: Number of the runs alike.
        kind: Number of the kind.
        nodes: Numbers of the nodes, shape (samples, most nodes); a shorter list repeats its first node.
        seconds: The logarithm of the seconds a step.
        weight: 0 to 1.
    """

    level: Ints
    kind: Ints
    nodes: Ints
    seconds: Floats
    weight: Floats

    def part(self, rows: Bools) -> SpeedRows:
        """Return some of the samples."""
        return SpeedRows(self.level[rows], self.kind[rows], self.nodes[rows], self.seconds[rows], self.weight[rows])


class SpeedNames(NamedTuple):
    """What the numbers in `SpeedRows` are of."""

    alike: tuple[object, ...]
    kinds: tuple[str, ...]
    nodes: tuple[str, ...]


def speed_rows(samples: Sequence[SpeedSample], now: float) -> tuple[SpeedRows, SpeedNames]:
    """Return samples, one at least, in columns. now: epoch second."""
    names = SpeedNames(
        tuple(sorted({one.alike for one in samples})),
        tuple(sorted({one.kind for one in samples})),
        tuple(sorted({name for one in samples for name in one.nodes})),
    )
    level, kind, node = ({name: at for at, name in enumerate(each)} for each in names)
    width = max(len(one.nodes) for one in samples)
    nodes = [[node[name] for name in one.nodes + one.nodes[:1] * (width - len(one.nodes))] for one in samples]
    age = np.array([max(now - one.end, 0.0) for one in samples])
    rows = SpeedRows(
        np.array([level[one.alike] for one in samples]),
        np.array([kind[one.kind] for one in samples]),
        np.array(nodes, np.int64),
        np.log([one.seconds for one in samples]),
        np.exp2(-age / HALF_LIFE_S),
    )
    return rows, names


class SpeedFit(NamedTuple):
    """The fitted model.

    Attributes:
        level: Logarithm of the seconds a step on the median node, of runs alike, shape (levels,); nan: not known.
        slowness: Logarithm of the slowness of each node, shape (nodes,).
        error: Its standard error, shape (nodes,).
        sensitivity: Of each kind, one of SENSITIVITIES, shape (kinds,).
    """

    level: Floats
    slowness: Floats
    error: Floats
    sensitivity: Floats

    def slowest(self, rows: SpeedRows) -> Ints:
        """Return the slowest node of each sample, shape (samples,)."""
        return slowest_nodes(rows.nodes, self.slowness)

    def predicted(self, rows: SpeedRows) -> Floats:
        """Return the expected logarithm of the seconds a step; nan: not known, shape (samples,)."""
        effect = self.sensitivity[rows.kind] * self.slowness[self.slowest(rows)]
        return np.asarray(self.level[rows.level] + effect)


def slowest_nodes(nodes: Ints, slowness: Floats) -> Ints:
    """Return the slowest node of each row, shape (rows,). nodes: numbers of nodes, shape (rows, most nodes)."""
    return np.asarray(np.take_along_axis(nodes, slowness[nodes].argmax(axis=1)[:, None], axis=1)[:, 0])


def fit(rows: SpeedRows, names: SpeedNames) -> SpeedFit:
    """Return the fitted model. O(samples x nodes of a sample). rows: with the numbers of `names`."""
    return _Fitting(rows, names).fitted()


class _Fitting:
    """The state of one fit."""

    def __init__(self, rows: SpeedRows, names: SpeedNames) -> None:
        self._rows, (self._levels, self._kinds, self._nodes) = rows, map(len, names)
        self._sensitivity = np.ones(self._kinds)
        self._precision = rows.weight  # of each sample, once the noise is known
        self._is_noise_common = True  # to all kinds
        self._of_kind = np.bincount(rows.kind, minlength=self._kinds)
        self._level = self._means(rows.level, rows.seconds, rows.weight, self._levels)
        self._slowness = self._first_slowness()

    def fitted(self) -> SpeedFit:
        """Return the model after all rounds."""
        self._settle()
        self._sensitivity, self._is_noise_common = self._chosen_sensitivities(), False
        self._settle()
        for _ in range(_PASSES):
            before, self._sensitivity = self._sensitivity, self._chosen_sensitivities()
            if (before == self._sensitivity).all():
                break
            self._settle()
        count = np.bincount(self._rows.level, minlength=self._levels)
        return SpeedFit(np.where(count > 0, self._level, np.nan), self._slowness, self._errors(), self._sensitivity)

    def _settle(self) -> None:
        for _ in range(_ROUNDS):
            before = self._slowness
            self._round()
            if np.abs(self._slowness - before).max(initial=0.0) < _SETTLED:
                break

    def _first_slowness(self) -> Floats:
        """Return the mean difference from their level of all runs on each node, half of it for a start."""
        rows, width = self._rows, self._rows.nodes.shape[1]
        more = np.repeat(rows.seconds - self._level[rows.level], width)
        return 0.5 * self._means(rows.nodes.ravel(), more, np.repeat(rows.weight, width), self._nodes)

    def _round(self) -> None:
        rows, node = self._rows, slowest_nodes(self._rows.nodes, self._slowness)
        sensitivity = self._sensitivity[rows.kind]
        effect = sensitivity * self._slowness[node]
        self._weigh(rows.seconds - self._level[rows.level] - effect)
        self._level = self._means(rows.level, rows.seconds - effect, self._precision, self._levels)
        more = rows.seconds - self._level[rows.level]
        numerator = np.bincount(node, self._precision * sensitivity * more, self._nodes)
        slowness = numerator / (np.bincount(node, self._precision * sensitivity**2, self._nodes) + PRIOR**-2)
        self._slowness = np.asarray(slowness - np.median(slowness))

    def _weigh(self, residual: Floats) -> None:
        """Set the precision of each sample by what the model leaves."""
        rows = self._rows
        size = np.abs(residual)
        parameters = self._levels + min(self._nodes, len(size) // 2)
        more = np.sqrt(len(size) / max(len(size) - parameters, len(size) / 4))
        pooled, count = float(np.median(size)), self._of_kind
        deviation = (count * self._middles(size, pooled) + _PRIOR_SAMPLES * pooled) / (count + _PRIOR_SAMPLES)
        if self._is_noise_common:
            deviation = np.full(self._kinds, pooled)
        noise = np.maximum(_NORMAL * more * deviation, _LEAST_DEVIATION)[rows.kind]
        limit = np.minimum(1.0, _HUBER * noise / np.maximum(size, _LEAST_DEVIATION))
        self._precision = rows.weight * limit / noise**2

    def _middles(self, size: Floats, neutral: float) -> Floats:
        """Return the upper median of the values of each kind; neutral where it has none."""
        last = np.cumsum(self._of_kind)
        ordered = size[np.lexsort((size, self._rows.kind))]
        middle = ordered[np.minimum(last - (self._of_kind + 1) // 2, len(size) - 1)]
        return np.where(self._of_kind > 0, middle, neutral)

    def _chosen_sensitivities(self) -> Floats:
        """Return the largest sensitivity of each kind that its runs do not exclude, relative to the most sensitive kind."""
        rows, precision = self._rows, self._precision
        slowness = self._slowness[slowest_nodes(rows.nodes, self._slowness)]
        apart, more = (
            each - self._means(rows.level, each, precision, self._levels)[rows.level]
            for each in (slowness, rows.seconds)
        )
        squares = np.maximum(np.bincount(rows.kind, precision * apart**2, self._kinds), 1e-9)
        slope, margin = (
            np.bincount(rows.kind, precision * apart * more, self._kinds) / squares,
            _CERTAIN / np.sqrt(squares),
        )
        most = (slope + margin) / max(float((slope - margin).max()), 1.0)
        return np.select([most >= 0.75, most >= 0.25], SENSITIVITIES[:2], SENSITIVITIES[2])

    def _errors(self) -> Floats:
        """Return the standard errors. Runs whose level only this node shows are no information on it."""
        rows, node = self._rows, slowest_nodes(self._rows.nodes, self._slowness)
        pair = rows.level * self._nodes + node
        _, index = np.unique(pair, return_inverse=True)
        index = index.reshape(-1)
        here, all_runs = (
            np.bincount(index, self._precision)[index],
            np.bincount(rows.level, self._precision)[rows.level],
        )
        elsewhere = 1.0 - here / np.maximum(all_runs, np.finfo(float).tiny)
        known = self._precision * self._sensitivity[rows.kind] ** 2 * np.maximum(elsewhere, 0.0)
        return np.asarray(1.0 / np.sqrt(np.bincount(node, known, self._nodes) + PRIOR**-2))

    @staticmethod
    def _means(index: Ints, values: Floats, weight: Floats, count: int) -> Floats:
        """Return the weighted mean of the values of each number; 0 where it has none."""
        total = np.bincount(index, weight, count)
        return np.asarray(np.bincount(index, weight * values, count) / np.where(total > 0.0, total, 1.0))
