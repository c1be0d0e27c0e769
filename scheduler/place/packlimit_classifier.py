"""PACKLIMIT, learned from jobs that were seen on more and on fewer nodes (section 3.3.2: "a simple linear classifier").

An observation is one kind of job: the skew of its tensors S_J, its communication share rho (seconds on the wire a second of
computing), and how much slower an iteration is on more nodes than on the fewest. Slower than a margin is what is foretold.

The classifier is a logistic regression. Unlike least squares it does not let jobs that are clear cases anyway (a skew of 0.9) pull
the limit away from the doubtful ones. Weights are not negative: more skew or more traffic never makes a job less in need of
few nodes, whatever a few outliers are. Jobs whose tensors are not observed (all-reduce) have a boundary of their own.

A boundary is used only where cross-validation shows that it is better than the default. Pure; the order of rows does not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiresias.scheduler.model import Bools, Floats

MARGIN = 1.2  # a slowdown worth waiting for whole nodes, which times that vary by a tenth seldom look like
LEAST = 5  # observations on either side of the margin
CHANCE = 0.001  # that answers drawn at random agree as well; small, as it is tried again with every bit of history
FOLDS = 10
WIDTH = 10.0  # prior standard deviation of the weights: half the range of a feature takes a sure no to a sure yes
STEPS, PRECISION = 100, 1e-9  # of Newton's method, which takes about ten


@dataclass(frozen=True, slots=True)
class LinearBoundary:
    """Consolidate where constant + skew * S_J + traffic * rho / (1 + rho) > 0.

    typical: rho / (1 + rho) taken where rho is not known, the median. jobs, slowed: how many were observed, and how many of them
    were slower than the margin. error: share of wrong answers, cross-validated; nan: none was fitted. used: in words, `why`.
    """

    constant: float
    skew: float
    traffic: float
    typical: float
    jobs: int
    slowed: int
    error: float
    used: bool
    why: str

    def above(self, skew: float, share: float) -> bool:
        """Return whether a job consolidates. share: rho / (1 + rho)."""
        return self.constant + self.skew * skew + self.traffic * share > 0


@dataclass(frozen=True, slots=True)
class PackLimit:
    """What decides whether a job consolidates.

    Attributes:
        default: The skew limit where none was learned.
        tensors: The boundary for jobs whose skew is known.
        traffic: The boundary for the other jobs.
    """

    default: float
    tensors: LinearBoundary
    traffic: LinearBoundary

    @property
    def limit(self) -> float:
        """The skew above which a job with an ordinary communication share consolidates; 1: no job, 0: all."""
        line = self.tensors
        if not line.used:
            return self.default
        rest = line.constant + line.traffic * line.typical
        if line.skew > 0:
            return min(max(-rest / line.skew, 0.0), 1.0)
        return 0.0 if rest > 0 else 1.0

    def consolidates(self, skew: float, rho: float = math.nan) -> bool | None:
        """Return whether a job consolidates; None: not known. nan stands for an unknown or impossible value."""
        known, share = float(_possible(skew)), float(_share(rho))
        if math.isnan(known):
            return self.traffic.above(0.0, share) if self.traffic.used and not math.isnan(share) else None
        if not self.tensors.used:
            return known > self.default
        return self.tensors.above(known, self.tensors.typical if math.isnan(share) else share)


def learn(
    skew: npt.ArrayLike, rho: npt.ArrayLike, slowdown: npt.ArrayLike, default: float, margin: float = MARGIN
) -> PackLimit:
    """Learn the limit from observations. Those without a slowdown, or without any feature, are left out.

    Args:
        skew: Skew of the tensors, 0 to 1, nan where unknown; shape (observations,).
        rho: Communication share, 0 or more, nan where unknown; shape (observations,).
        slowdown: Iteration time on more nodes divided by that on the fewest; shape (observations,).
        default: The skew limit where none is learned.
        margin: A larger slowdown counts as slower.
    """
    columns = np.stack((_possible(skew), _share(rho), np.asarray(slowdown, np.float64)), axis=1)
    columns = columns[np.isfinite(columns[:, 2]) & (columns[:, 2] > 0)]
    columns = columns[np.lexsort(columns.T)]
    hidden = np.isnan(columns[:, 0])
    seen, others = columns[~hidden], columns[hidden & ~np.isnan(columns[:, 1])]
    others[:, 0] = 0.0
    return PackLimit(default, _line(seen, margin), _line(others, margin))


def _possible(skew: npt.ArrayLike) -> Floats:
    skew = np.asarray(skew, np.float64)
    return np.where((skew >= 0) & (skew <= 1), skew, np.nan)


def _share(rho: npt.ArrayLike) -> Floats:
    """Of an iteration, if nothing overlaps: from 0 to 1, so that no observation weighs more than others by its size."""
    rho = np.asarray(rho, np.float64)
    return 1.0 - 1.0 / (1.0 + np.where(rho >= 0, rho, np.nan))


def _line(columns: Floats, margin: float) -> LinearBoundary:
    """columns: shape (observations, 3): skew, share and slowdown, in an order of their own."""
    share = columns[:, 1]
    typical = float(np.median(share[~np.isnan(share)])) if not np.isnan(share).all() else 0.0
    rows = np.stack((np.ones(len(share)), columns[:, 0], np.where(np.isnan(share), typical, share)), axis=1)
    slow = columns[:, 2] > margin
    jobs, slowed = len(slow), int(slow.sum())
    if min(slowed, jobs - slowed) < LEAST:
        return LinearBoundary(0.0, 0.0, 0.0, typical, jobs, slowed, math.nan, False, _too_few(jobs, slowed, margin))
    answers = _cross_validated(rows, slow)
    wrong, usual = int((answers != slow).sum()), min(slowed, jobs - slowed)
    used = wrong < usual and _chance(slow, answers) <= CHANCE
    constant, skew, traffic = _fit(rows, slow).tolist()
    return LinearBoundary(
        constant, skew, traffic, typical, jobs, slowed, wrong / jobs, used, _why(jobs, wrong, usual, used)
    )


def _too_few(jobs: int, slowed: int, margin: float) -> str:
    return (
        f"the default stands: {slowed} of {jobs} observed jobs are more than {margin - 1:.0%} slower on more nodes; "
        f"{LEAST} that are and {LEAST} that are not are required"
    )


def _why(jobs: int, wrong: int, usual: int, used: bool) -> str:
    verdict = "learned" if used else "the default stands, as history contradicts itself"
    return f"{verdict}: of {jobs} jobs {wrong} are predicted wrongly, {usual} with one prediction for all"


def _cross_validated(rows: Floats, slow: Bools) -> Bools:
    """Return the prediction for each observation by a boundary that was fitted without its fold."""
    fold = np.random.default_rng(len(rows)).permutation(len(rows)) % FOLDS
    answers = np.zeros(len(rows), bool)
    for part in range(FOLDS):
        apart = fold == part
        answers[apart] = rows[apart] @ _fit(rows[~apart], slow[~apart]) > 0
    return answers


def _chance(slow: Bools, answers: Bools) -> float:
    """Fisher's exact test: how likely at least so many of the slow jobs are among those answered yes if answers are drawn."""
    jobs, slowed, yes = len(slow), int(slow.sum()), int(answers.sum())
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, jobs + 1)))))  # of factorials
    both = np.arange(int((slow & answers).sum()), min(slowed, yes) + 1)
    ways = _choose(logs, slowed, both) + _choose(logs, jobs - slowed, yes - both) - _choose(logs, jobs, np.array(yes))
    return float(np.exp(ways).sum())


def _choose(logs: Floats, of: int, some: npt.NDArray[np.int64]) -> Floats:
    chosen: Floats = logs[of] - logs[some] - logs[of - some]
    return chosen


def _fit(rows: Floats, slow: Bools) -> Floats:
    """The weights of a logistic regression by projected Newton steps: the first is the constant, the others are 0 or more."""
    weights = np.zeros(rows.shape[1])
    floor = np.concatenate(([-np.inf], weights[1:]))
    for _ in range(STEPS):
        better = _along(rows, slow, weights, _newton(rows, slow, weights, floor), floor)
        if np.abs(better - weights).max() < PRECISION:
            break
        weights = better
    return weights


def _newton(rows: Floats, slow: Bools, weights: Floats, floor: Floats) -> Floats:
    """The step to the bottom; weights that would only sink through the floor stay."""
    likely = (1.0 + np.tanh(rows @ weights / 2)) / 2
    slope = rows.T @ (likely - slow) + weights / WIDTH**2
    bend = (rows.T * (likely * (1.0 - likely))) @ rows + np.eye(len(weights)) / WIDTH**2
    free = (weights > floor) | (slope < 0)
    step = np.zeros(len(weights))
    step[free] = np.linalg.solve(bend[np.ix_(free, free)], slope[free])
    return step


def _along(rows: Floats, slow: Bools, weights: Floats, step: Floats, floor: Floats) -> Floats:
    """The whole step, or so much of it that it does not overshoot."""
    here = _loss(rows, slow, weights)
    for halvings in range(30):
        there: Floats = np.maximum(weights - step / 2**halvings, floor)
        if _loss(rows, slow, there) <= here:
            return there
    return weights


def _loss(rows: Floats, slow: Bools, weights: Floats) -> float:
    margins = np.where(slow, 1.0, -1.0) * (rows @ weights)
    return float(np.logaddexp(0.0, -margins).sum() + (weights**2).sum() / (2 * WIDTH**2))
