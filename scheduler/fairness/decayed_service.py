"""The service of runs with exponential decay: a GPU-second counts half as much after each half-life, as in Slurm's fair share.

Source: Slurm's multifactor plug-in, PriorityDecayHalfLife. The service is integrated over each run and not counted at its end, so
it does not matter into how many runs or jobs the same work is split. Pure.
"""

from __future__ import annotations

import math

import numpy as np

from tiresias.scheduler.model import Floats, Ints

NEGLIGIBLE_HALF_LIVES = 20.0  # after so many half-lives less than a millionth of a run counts


def decayed_service(start: Floats, end: Floats, gpus: Ints | Floats, now: float, half_life: float) -> Floats:
    """Return the GPU-seconds that each run counts now, shape (runs,).

    Args:
        start: Epoch second of the start of each run.
        end: Epoch second of its end; what lies after `now` does not count.
        gpus: GPUs of each run.
        now: Epoch second.
        half_life: Seconds after which service counts half; inf: it always counts in full.
    """
    ends = np.minimum(end, now)
    seconds = np.maximum(ends - start, 0.0)
    if half_life == math.inf:
        return np.asarray(gpus * seconds, np.float64)
    rate = math.log(2.0) / half_life
    counted = -np.expm1(-rate * seconds) / rate * np.exp(-rate * (now - ends))
    return np.asarray(gpus * counted, np.float64)


def since(now: float, half_life: float) -> float:
    """Return the epoch second before which ended runs no longer count; -inf: all runs count."""
    return now - NEGLIGIBLE_HALF_LIVES * half_life


def last_count(now: float, period: float) -> float:
    """Return the newest moment at which the service of owners is counted: a multiple of `period` seconds."""
    return math.floor(now / period) * period
