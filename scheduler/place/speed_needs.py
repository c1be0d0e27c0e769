"""What a job needs of the speed of its nodes and of their distance. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

from tiresias.scheduler.model import Snapshot

# Of a step on several nodes, and again for each level of the topology that the job crosses: PAL's factor for gangs on several nodes
# (Jain et al., SC '24).
LOCALITY_PENALTY = 1.5
NEVER_APART = math.inf  # the fewest nodes, the nearest ones, before fast ones


class SpeedNeeds(NamedTuple):
    """What a job needs.

    Attributes:
        sensitivity: Part of the logarithm of a node's slowness by which its steps are longer there, 0 to 1.
        locality_penalty: Factor of its step time for each level that it crosses, 1 or more; NEVER_APART.
    """

    sensitivity: float = 1.0
    locality_penalty: float = LOCALITY_PENALTY


ALL_ALIKE = SpeedNeeds()


class ExpectedSpeed(NamedTuple):
    """What is expected of a job on its nodes.

    Attributes:
        slowdown: Seconds a step, divided by those on the median node.
        slowest: The name of the slowest of its nodes.
        sensitivity: Of the job, as in `SpeedNeeds`.
    """

    slowdown: float
    slowest: str
    sensitivity: float


def expected_speed(snapshot: Snapshot, row: int, nodes: Collection[int]) -> ExpectedSpeed | None:
    """Return what is expected of a job; None: nothing is known of the speeds of nodes.

    Args:
        snapshot: The jobs and nodes.
        row: The job.
        nodes: Rows of the nodes on which it runs or starts, one at least.
    """
    slowness, sensitivity = snapshot.nodes.slowness, snapshot.jobs.speed_sensitivity
    if slowness is None:
        return None
    own = 1.0 if sensitivity is None else float(sensitivity[row])
    slowest = max(sorted(nodes), key=slowness.__getitem__)
    return ExpectedSpeed(float(slowness[slowest]) ** own, snapshot.nodes.name[slowest], own)
