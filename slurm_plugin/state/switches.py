"""The two switches of an administrator, kept in the journal so that they outlive every controller.

paused    jobs start, but none is preempted
stopped   no controller leads at all; Slurm is alone
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import Any

from tiresias.errors import UsageError
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_history import History

PAUSED, STOPPED = "paused", "stopped"


@dataclass(frozen=True, slots=True)
class Switched:
    """By whom, since when (epoch seconds) and why."""

    since: float
    by: str
    reason: str = ""

    @property
    def words(self) -> str:
        """Such as: by root since 2026-05-01 12:00: maintenance"""
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.since))
        return f"by {self.by} since {since}" + (f": {self.reason}" if self.reason else "")

    def published(self) -> dict[str, Any]:
        return asdict(self)


def switched(history: History, name: str) -> Switched | None:
    """None: the switch is off."""
    text = history.noted(name)
    return Switched(**json.loads(text)) if text else None


def refuse_if_stopped(history: History) -> None:
    """Raises UsageError: trying again does not help."""
    if found := switched(history, STOPPED):
        raise UsageError(f"controllers are stopped {found.words}; `tiresias resume` lets them start again")


def pause(journal: Journal, now: float, by: str, reason: str) -> str:
    """Returns, in words, what that changed. Who pauses again keeps the moment of the first."""
    earlier = _switch_on(journal, PAUSED, Switched(now, by, reason))
    if earlier:
        return f"preemptions were paused already, {earlier.words}"
    return "preemptions are paused: no new ones until `tiresias resume`; jobs start where there is room"


def stop(journal: Journal, now: float, by: str, reason: str) -> None:
    _switch_on(journal, STOPPED, Switched(now, by, reason))


def resume(journal: Journal) -> str:
    """Returns, in words, what that changed."""
    was = {name: found for name in (PAUSED, STOPPED) if (found := switched(journal, name))}
    for name in was:
        journal.note(name, None)
    words = [f"{name} {found.words}" for name, found in was.items()]
    return f"resumed; it was {' and '.join(words)}" if was else "nothing was paused or stopped"


def _switch_on(journal: Journal, name: str, new: Switched) -> Switched | None:
    earlier = switched(journal, name)
    journal.note(name, json.dumps(asdict(Switched(earlier.since if earlier else new.since, new.by, new.reason))))
    return earlier
