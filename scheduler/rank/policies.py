"""The policies by their name in `policy.name`; one file each.

POLICIES need no knowledge of the future, so the controller can run them. The CLAIRVOYANT ones are the simulator's baselines.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiresias.scheduler.rank.adaptive import Adaptive
from tiresias.scheduler.rank.continuous_gittins import ContinuousGittins
from tiresias.scheduler.rank.continuous_las import ContinuousLas
from tiresias.scheduler.rank.fifo import BestEffort, Fifo
from tiresias.scheduler.rank.gittins import FIRST_FIT, Gittins
from tiresias.scheduler.rank.las import Las
from tiresias.scheduler.rank.policy import Policy
from tiresias.scheduler.rank.shortest_first import ShortestRemainingService, ShortestRemainingTime, SmallestFirst
from tiresias.scheduler.rank.time_sharing import TimeSharing

POLICIES: Mapping[str, Policy] = {
    "las": Las(),
    "fifo": Fifo(),
    "best_effort": BestEffort(),
    "sf": SmallestFirst(),
    "time_sharing": TimeSharing(),
    "gittins": Gittins(refit_at=FIRST_FIT),
    "adaptive": Adaptive(),
    "continuous_las": ContinuousLas(),
    "continuous_gittins": ContinuousGittins(refit_at=FIRST_FIT),
}
CLAIRVOYANT: Mapping[str, Policy] = {"srtf": ShortestRemainingTime(), "srsf": ShortestRemainingService()}
