"""Least squares with coefficients of 0 or more (NNLS): the active-set method of Lawson and Hanson (1974, chapter 23)."""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Bools, Floats

_STEPS_A_COLUMN = 10  # a solution takes about one step a column; the limit ends a cycle of equal columns


def nonnegative_least_squares(matrix: Floats, target: Floats) -> Floats:
    """Return the coefficients x >= 0 with the least |matrix @ x - target|, shape (columns,).

    Meant for few columns: a step costs O(columns^3) after O(rows x columns^2) once.

    Args:
        matrix: Shape (rows, columns).
        target: Shape (rows,).
    """
    scale = np.maximum(np.linalg.norm(matrix, axis=0), np.finfo(np.float64).tiny)
    unit = matrix / scale
    gram, moment = unit.T @ unit, unit.T @ target
    tolerance = 1e-10 * max(float(np.abs(moment).max(initial=0.0)), np.finfo(np.float64).tiny)
    found, free = np.zeros(len(moment)), np.zeros(len(moment), np.bool_)
    for _ in range(_STEPS_A_COLUMN * len(moment)):
        slope = np.where(free, -np.inf, moment - gram @ found)
        best = int(slope.argmax()) if len(slope) else 0
        if free.all() or slope[best] <= tolerance:
            break
        free[best] = True
        found = _freed(gram, moment, found, free)
    return np.asarray(found / scale)


def _freed(gram: Floats, moment: Floats, found: Floats, free: Bools) -> Floats:
    """Return the best solution with the free columns; those that would become negative are fixed at 0 in `free`."""
    while True:
        aim = np.zeros(len(moment))
        aim[free] = np.linalg.lstsq(gram[np.ix_(free, free)], moment[free], rcond=None)[0]
        negative = free & (aim <= 0.0)
        if not negative.any():
            return aim
        part = (found[negative] / np.maximum(found[negative] - aim[negative], np.finfo(np.float64).tiny)).min()
        found = found + part * (aim - found)
        free &= found > 1e-14 * found.max()
        found = np.where(free, found, 0.0)
