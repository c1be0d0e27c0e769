"""The number of parameter servers on CPUs alone with which a job is fastest, for each number of GPUs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiresias.scheduler.model import Floats, Ints

WORTH = 0.02  # a server is worth its CPUs from this part of the time of a step on


def fastest_counts(seconds: Floats, possible: Sequence[Sequence[int]]) -> Ints:
    """Return the number of servers for each number of GPUs, shape (GPUs,): the fewest of those within WORTH of the fastest.

    Args:
        seconds: Predicted seconds by servers and GPUs, shape (servers, GPUs); nan: not known.
        possible: The possible numbers of servers for each number of GPUs, in ascending order; none: not a size.
    """
    found = np.zeros(seconds.shape[1], np.int64)
    for gpus, counts in enumerate(possible):
        if counts:
            each = seconds[list(counts), gpus]
            found[gpus] = counts[int((each <= (1.0 + WORTH) * np.nanmin(each)).argmax())]
    return found
