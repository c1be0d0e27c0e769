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
    """One switch that is on.

    Attributes:
        since: Epoch second of the first request.
        by: The user.
        reason: The reason that the user gave.
    """

    since: float
    by: str
    reason: str = ""

    @property
    def words(self) -> str:
        """The switch as a phrase: by root since 2026-05-01 12:00: maintenance"""
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.since))
        return f"by {self.by} since {since}" + (f": {self.reason}" if self.reason else "")

    def published(self) -> dict[str, Any]:
        """Return it as it is published."""
        return asdict(self)


def switched(history: History, name: str) -> Switched | None:
    """Return the switch of that name; None where it is off."""
    text = history.noted(name)
    return Switched(**json.loads(text)) if text else None


def refuse_if_stopped(history: History) -> None:
    """Check that controllers may run. Raises UsageError: another attempt would not help."""
    if found := switched(history, STOPPED):
        raise UsageError(f"controllers are stopped {found.words}; `tiresias resume` lets them start again")


def pause(journal: Journal, now: float, by: str, reason: str) -> str:
    """Pause preemptions; return a message for the administrator. A second request keeps the moment of the first."""
    earlier = _switch_on(journal, PAUSED, Switched(now, by, reason))
    if earlier:
        return f"preemptions were paused already, {earlier.words}"
    return "preemptions are paused: no new ones until `tiresias resume`; jobs start on free GPUs"


def stop(journal: Journal, now: float, by: str, reason: str) -> None:
    """Stop all controllers until `resume`."""
    _switch_on(journal, STOPPED, Switched(now, by, reason))


def resume(journal: Journal) -> str:
    """Turn both switches off; return a message for the administrator."""
    was = {name: found for name in (PAUSED, STOPPED) if (found := switched(journal, name))}
    for name in was:
        journal.note(name, None)
    words = [f"{name} {found.words}" for name, found in was.items()]
    return f"resumed; it was {' and '.join(words)}" if was else "nothing was paused or stopped"


def _switch_on(journal: Journal, name: str, new: Switched) -> Switched | None:
    earlier = switched(journal, name)
    journal.note(name, json.dumps(asdict(Switched(earlier.since if earlier else new.since, new.by, new.reason))))
    return earlier
