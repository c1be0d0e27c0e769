"""The newest decisions, in the log and in the journal."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from tiresias.slurm_plugin.sockets.publication import SHOWN_DECISIONS
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import Decision

log = logging.getLogger("tiresias")


class DecisionLog:
    """Attributes:
    actions: how many decisions of each action there were since the controller started.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._newest = list(reversed(journal.decisions(limit=SHOWN_DECISIONS)))
        self.actions: Counter[str] = Counter()

    def add(self, news: Sequence[Decision]) -> None:
        """Log, count and journal decisions about jobs."""
        if not news:
            return
        for one in news:
            log.info("job %s: %s: %s", one.id, one.action, one.why)
            self.actions[one.action] += 1
        with self._journal.batch():
            self._journal.record(news)
        self._show(news)

    def add_uncounted(self, decision: Decision) -> None:
        """Journal a decision that is about no job."""
        self._journal.record([decision])
        self._show([decision])

    def newest_first(self) -> tuple[Decision, ...]:
        """Return the decisions that viewers see."""
        return tuple(reversed(self._newest))

    def _show(self, news: Sequence[Decision]) -> None:
        self._newest = [*self._newest, *news][-SHOWN_DECISIONS:]
