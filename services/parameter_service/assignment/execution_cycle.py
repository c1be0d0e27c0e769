"""The execution cycle of an aggregator: how often jobs run in it, and what that costs them (AutoPS, section 4.3.3.2).

An aggregator repeats a cycle of C seconds, the longest iteration of its jobs. A job with an iteration of D seconds runs
floor(C / D) times in it, so that its iterations take d = C / floor(C / D) seconds there. Its loss is (d - D) / d.

Line 4 of the printed pseudocode, d = max(D, ceil(C / D)), compares seconds with a number of runs. This module computes d as the
thesis defines it.
"""

from __future__ import annotations

TOLERANCE = 1e-9  # relative; sums of floating-point numbers are compared with it


def runs_in(cycle_s: float, iteration_s: float) -> int:
    """Return how many iterations of a job start in a cycle, 1 or more; the cycle is no shorter than the iteration."""
    return max(int(cycle_s / iteration_s * (1 + TOLERANCE)), 1)


def slowed_iteration(cycle_s: float, iteration_s: float) -> float:
    """Return the seconds of a job's iteration on an aggregator with that cycle."""
    return max(cycle_s / runs_in(cycle_s, iteration_s), iteration_s)


def loss_of(slowed_s: float, iteration_s: float) -> float:
    """Return the loss of training speed of a job whose iteration takes `slowed_s` in place of `iteration_s`: 0 or more, below 1."""
    return max(slowed_s - iteration_s, 0.0) / max(slowed_s, iteration_s)


def loss_in(cycle_s: float, iteration_s: float) -> float:
    """Return the loss of a job on an aggregator with that cycle."""
    return loss_of(slowed_iteration(cycle_s, iteration_s), iteration_s)
