"""Run a controller whose policy `adaptive` fails to rank more than one job, as a defect that no single job explains.

python3 failing_adaptive.py CONFIG
"""

from __future__ import annotations

import sys

from tiresias.__main__ import main
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Snapshot
from tiresias.scheduler.rank.adaptive import Adaptive
from tiresias.scheduler.rank.policy import IncrementalPolicy, Ranking


def _rank_or_fail(policy: Adaptive, snapshot: Snapshot, config: PolicyConfig) -> Ranking:
    if len(snapshot.jobs) > 1:
        raise IndexError("list index out of range")
    return IncrementalPolicy.rank(policy, snapshot, config)


Adaptive.rank = _rank_or_fail  # type: ignore[assignment, method-assign]
sys.exit(main(["controller", "--config", sys.argv[1]]))
