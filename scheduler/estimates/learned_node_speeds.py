"""The speeds of nodes learned from a site's own runs, and whether they predict step times better than "all nodes are equal" does.

Each fifth of the samples is predicted from the others; the speeds are used only where the errors are surely less than those of the
levels alone, and where some node surely differs. A node counts as slow only if the runs of two users show it, where several users
have runs, so that no user alone can have it named by false reports. Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.estimates.interference import is_surely_less
from tiresias.scheduler.estimates.node_speed import SpeedFit, SpeedNames, SpeedRows, fit, speed_rows
from tiresias.scheduler.estimates.speed_samples import SpeedSample
from tiresias.scheduler.model import Floats

LEAST_SAMPLES = 10  # that are predicted
FOLDS = 5
DEVIATIONS = 3.0  # standard errors by which a node surely differs
SLOW = 1.1  # slowness from which a node is worth a repair
LEAST_RUNS, LEAST_JOBS = 5, 2  # that show that it is slow
LEAST_USERS = 2  # where several have runs
_OWN_SLOW = math.log(1.05)  # of the runs of one user
_MOST_ERROR = math.log(10.0)  # a larger one counts as this one


class NodeSpeed(NamedTuple):
    """What is known of a node.

    Attributes:
        slowness: Seconds a step of sensitive jobs, divided by those on the median node.
        least: Its lower confidence bound.
        runs: Runs of which it was the slowest node.
        jobs: Jobs of these runs.
        is_confirmed: Whether the runs of two users, or those of the only user, are slower there.
    """

    slowness: float
    least: float
    runs: int
    jobs: int
    is_confirmed: bool

    @property
    def is_slow(self) -> bool:
        """Whether the node is persistently slow."""
        is_shown = self.runs >= LEAST_RUNS and self.jobs >= LEAST_JOBS and self.is_confirmed
        return is_shown and self.least >= SLOW

    @property
    def words(self) -> str:
        """What is known of a slow node, without its name."""
        return (
            f"steps take {self.slowness:.2f} times as long as on the median node ({self.least:.2f} at least), "
            f"by {self.runs} runs of {self.jobs} jobs"
        )


class LearnedNodeSpeeds(NamedTuple):
    """The result.

    Attributes:
        nodes: What is known of each node, by name; empty: the speeds are not surely better than "all nodes are equal".
        sensitivity: Of each kind of jobs: the part of the logarithm of the slowness by which its steps are longer.
        samples: The samples that were predicted.
        error: Mean error of the logarithm of step times that were left out; nan: too few samples.
        error_without: The same if all nodes are equal.
    """

    nodes: Mapping[str, NodeSpeed]
    sensitivity: Mapping[str, float]
    samples: int = 0
    error: float = math.nan
    error_without: float = math.nan

    @property
    def slow(self) -> dict[str, NodeSpeed]:
        """The nodes that are persistently slow, by name, sorted."""
        return {name: self.nodes[name] for name in sorted(self.nodes) if self.nodes[name].is_slow}


NO_SPEEDS = LearnedNodeSpeeds({}, {})


def speeds_learning(samples: Sequence[SpeedSample], now: float) -> Iterator[LearnedNodeSpeeds | None]:
    """Yield None after each part of the computation, so that it can be continued later, then the result."""
    if len(samples) < LEAST_SAMPLES:
        yield NO_SPEEDS._replace(samples=len(samples))
        return
    rows, names = speed_rows(sorted(samples), now)
    errors, without = np.full((2, len(samples)), np.nan)
    fold = np.arange(len(samples)) % FOLDS
    for number in range(FOLDS):
        held = fold == number
        errors[held], without[held] = _errors(rows.part(~held), rows.part(held), names)
        yield None
    known = np.isfinite(errors)
    if known.sum() < LEAST_SAMPLES:
        yield NO_SPEEDS._replace(samples=int(known.sum()))
        return
    errors, without = errors[known], without[known]
    fitted = fit(rows, names)
    differs = bool((np.abs(fitted.slowness) > DEVIATIONS * fitted.error).any())
    means = len(errors), float(errors.mean()), float(without.mean())
    if not differs or not is_surely_less(errors, without):
        yield LearnedNodeSpeeds({}, {}, *means)
        return
    sensitivity = dict(zip(names.kinds, fitted.sensitivity.tolist(), strict=True))
    yield LearnedNodeSpeeds(_known(fitted, rows, names, sorted(samples)), sensitivity, *means)


def _errors(shown: SpeedRows, held: SpeedRows, names: SpeedNames) -> tuple[Floats, Floats]:
    """Return the errors of the held samples, with the speeds of nodes and without; nan: no run alike is shown."""
    level = np.full(len(names.alike), np.nan)
    for number in np.unique(shown.level).tolist():
        level[number] = np.median(shown.seconds[shown.level == number])
    predictions = fit(shown, names).predicted(held), level[held.level]
    with_speeds, without = (np.minimum(np.abs(one - held.seconds), _MOST_ERROR) for one in predictions)
    return with_speeds, without


def _known(
    fitted: SpeedFit, rows: SpeedRows, names: SpeedNames, samples: Sequence[SpeedSample]
) -> dict[str, NodeSpeed]:
    there: dict[int, list[int]] = defaultdict(list)  # the samples of which each node is the slowest one
    for at, (node, kind) in enumerate(zip(fitted.slowest(rows).tolist(), rows.kind.tolist(), strict=True)):
        if fitted.sensitivity[kind] > 0.0:
            there[node].append(at)
    more = (rows.seconds - fitted.level[rows.level]).tolist()
    least_users = min(LEAST_USERS, len({one.owner for one in samples}))
    slowness, least = np.exp(fitted.slowness), np.exp(fitted.slowness - DEVIATIONS * fitted.error)
    found = {}
    for node, name in enumerate(names.nodes):
        own = {at: samples[at] for at in there[node]}
        found[name] = NodeSpeed(
            float(slowness[node]), float(least[node]), sum(one.runs for one in own.values()),
            len({one.job for one in own.values()}), _users(own, more) >= least_users,
        )  # fmt: skip
    return found


def _users(samples: Mapping[int, SpeedSample], more: Sequence[float]) -> int:
    """Return how many users have slower runs on a node. more: log of the step time over its level, of all samples."""
    of_owner: dict[str, list[float]] = defaultdict(list)
    for at, one in samples.items():
        of_owner[one.owner].append(more[at])
    return sum(median(each) >= _OWN_SLOW for each in of_owner.values())
