"""The policies by their name in `policy.name`; one file each.

POLICIES need no knowledge of the future, so the controller can run them. The CLAIRVOYANT ones are the simulator's baselines.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiresias.scheduler.policies.adaptive import Adaptive
from tiresias.scheduler.policies.best_effort import BestEffort
from tiresias.scheduler.policies.continuous_gittins import ContinuousGittins
from tiresias.scheduler.policies.continuous_las import ContinuousLas
from tiresias.scheduler.policies.fifo import Fifo
from tiresias.scheduler.policies.gittins import FIRST_FIT, Gittins
from tiresias.scheduler.policies.las import Las
from tiresias.scheduler.policies.sf import SmallestFirst
from tiresias.scheduler.policies.srsf import ShortestRemainingService
from tiresias.scheduler.policies.srtf import ShortestRemainingTime
from tiresias.scheduler.policies.time_sharing import TimeSharing
from tiresias.scheduler.policy import Policy

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
