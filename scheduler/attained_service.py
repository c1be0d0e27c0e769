"""Service arithmetic: the attained service of a job, from its runs.

Runs are the whole memory, one row a (job, restart count): to apply an observation twice changes nothing, and a service never
shrinks as time goes on. The controller keeps the rows in its journal, the simulator in its arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Service(NamedTuple):
    """The service of a job since its last reset (section 3.2.3).

    Attributes:
        attained: W_J * t_J in GPU-seconds.
        ran: t_J, seconds.
        waited: The waiting time, seconds.
    """

    attained: float
    ran: float
    waited: float


def service(runs: Iterable[tuple[float, float, int]], submit: float, reset: float, now: float) -> Service:
    """`runs`: (start, end or now, GPUs). `reset`: when the job was promoted last, 0 for never; what was before does not count.

    The GPUs are each run's own, so a job that changes its size between runs is counted right.
    """
    since = max(submit, reset)
    attained = ran = 0.0
    for start, end, gpus in runs:
        seconds = max(0.0, min(end, now) - max(start, since))
        ran += seconds
        attained += gpus * seconds
    return Service(attained, ran, max(0.0, now - since - ran))
