"""The policies by their name in `policy.name`; one file each.

POLICIES need no knowledge of the future, so the controller can run them. The CLAIRVOYANT ones are the simulator's baselines.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiresias.scheduler.policies.adaptive import Adaptive
from tiresias.scheduler.policies.best_effort import BestEffort
from tiresias.scheduler.policies.fifo import Fifo
from tiresias.scheduler.policies.gittins import FIRST_FIT, Gittins
from tiresias.scheduler.policies.las import Las
from tiresias.scheduler.policies.sf import SmallestFirst
from tiresias.scheduler.policies.srsf import ShortestRemainingService
from tiresias.scheduler.policies.srtf import ShortestRemainingTime
from tiresias.scheduler.policy import Policy

POLICIES: Mapping[str, Policy] = {
    "las": Las(), "fifo": Fifo(), "best_effort": BestEffort(), "sf": SmallestFirst(), "gittins": Gittins(refit_at=FIRST_FIT),
    "adaptive": Adaptive(),
}  # fmt: skip
CLAIRVOYANT: Mapping[str, Policy] = {"srtf": ShortestRemainingTime(), "srsf": ShortestRemainingService()}
