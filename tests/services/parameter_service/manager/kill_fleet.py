"""Keep a fleet until right before or right after the n-th write of the journal or call of Slurm; then send SIGKILL to this process.

    python3 kill_fleet.py STATE MANAGER SCRIPT BUDGET EPOCH REQUESTED RELEASED POINT

REQUESTED and RELEASED are numbers, with commas; POINT 0 never kills: the fleet is kept until nothing is left to do.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiresias.services.parameter_service.manager.aggregator_jobs import AggregatorJobs
from tiresias.services.parameter_service.manager.fleet_keeper import FleetKeeper
from tiresias.services.parameter_service.manager.manager_journal import ManagerJournal

STATE, MANAGER, SCRIPT, BUDGET, EPOCH, REQUESTED, RELEASED, POINT = sys.argv[1:]
passed = 0


def _point() -> None:
    global passed
    passed += 1
    if passed == int(POINT):
        os.kill(os.getpid(), signal.SIGKILL)


def _deadly(owner: type, name: str) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    def wrapper(*arguments: Any) -> Any:
        _point()
        outcome = original(*arguments)
        _point()
        return outcome

    setattr(owner, name, wrapper)


for owner, name in (
    (ManagerJournal, "put_member"),
    (ManagerJournal, "remove_member"),
    (AggregatorJobs, "submit"),
    (AggregatorJobs, "cancel"),
):
    _deadly(owner, name)
journal = ManagerJournal(Path(STATE), int(EPOCH))
numbers = [[int(each) for each in text.split(",") if each] for text in (REQUESTED, RELEASED)]
with journal.together():
    journal.put_numbers(*numbers)
keeper = FleetKeeper(journal, AggregatorJobs(MANAGER, Path(SCRIPT)), int(BUDGET))
deadline = time.monotonic() + 60
while keeper.step():
    assert time.monotonic() < deadline, keeper.queue
print(*sorted(f"{each.number}={each.slurm_job}" for each in journal.members().values()))
