"""Options and findings of a rehearsal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RehearsalFinding:
    """One finding.

    Attributes:
        fine: whether the requirement is met
        what: the finding as text
        advice: what to do otherwise
    """

    fine: bool
    what: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class RehearsalOptions:
    """Options of a rehearsal.

    Attributes:
        after: seconds of training before the preemption
        deadline: seconds for the save
        startup: seconds to the first step
        queue: seconds to wait for nodes
        compare: files, in the job's folder, that an undisturbed run must write identically
    """

    after: float = 10.0
    deadline: float = 120.0
    startup: float = 300.0
    queue: float = 3600.0
    compare: tuple[str, ...] = ()
