"""The policies that need no knowledge of the future, by their name in `policy.name`."""

from __future__ import annotations

from collections.abc import Mapping

from tiresias.scheduler.best_effort import BestEffort
from tiresias.scheduler.fifo import Fifo
from tiresias.scheduler.las import Las
from tiresias.scheduler.policy import Policy

POLICIES: Mapping[str, Policy] = {"las": Las(), "fifo": Fifo(), "best_effort": BestEffort()}
