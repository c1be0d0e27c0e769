"""What administrators switch: preemptions paused and resumed, controllers stopped."""

from __future__ import annotations

from collections.abc import Callable

from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.switches import PAUSED, Switched, pause, resume, stop, switched


class OperatorSwitches:
    """Attributes:
    paused: when, by which user and why preemptions were paused; None: they are not.
    """

    def __init__(self, journal: Journal, clock: Callable[[], float]) -> None:
        """clock: epoch seconds."""
        self._journal, self._clock = journal, clock
        self.paused: Switched | None = None
        self.refresh()

    def refresh(self) -> None:
        """Read the journal."""
        self.paused = switched(self._journal, PAUSED)

    def pause(self, by: str, reason: str) -> str:
        """Preempt no job from the next cycle on; preemptions under way are finished, starts continue. Returns the outcome."""
        outcome = pause(self._journal, self._clock(), by, reason)
        self.refresh()
        return outcome

    def resume(self) -> str:
        """Preempt jobs again. Returns the outcome."""
        outcome = resume(self._journal)
        self.refresh()
        return outcome

    def forbid(self, by: str, reason: str) -> None:
        """Let no controller lead from now on, neither this one nor another."""
        stop(self._journal, self._clock(), by, reason)
