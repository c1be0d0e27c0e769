"""How much jobs slow each other on a node, learned from the timed runs of the journal (`runs_to_learn.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tiresias.scheduler.estimates.co_located_runs import co_run_samples
from tiresias.scheduler.estimates.learned_interference import NOTHING_LEARNED, LearnedInterference, learning
from tiresias.scheduler.interference_table import UNKNOWN_KIND, InterferenceTable
from tiresias.scheduler.model import Ints
from tiresias.slurm_plugin.observation.runs_to_learn import (
    JournalRuns,
    LearningInParts,
    RunsToLearn,
    kind_name,
    rounded,
)


class JournalInterference:
    """Learns the table of interference.

    Args:
        runs: The runs.
        used: Whether the style of placement uses it; otherwise nothing is learned.
    """

    def __init__(self, runs: JournalRuns, used: bool) -> None:
        self._used = used
        self._learning = LearningInParts(runs, _begin, NOTHING_LEARNED, "interference of jobs")
        self._row: dict[str, int] = {}

    @property
    def table(self) -> InterferenceTable | None:
        """The table; None: none is surely better than no interference."""
        return self._learning.learned.table

    def learn(self, now: float) -> None:
        """Read the journal where that is due, else continue to learn from it for one part of the computation."""
        if self._used and self._learning.learn(now):
            self._row = {name: at for at, name in enumerate(self.table.kinds)} if self.table else {}

    def kinds_of(self, kinds: Sequence[tuple[int, str]]) -> Ints | None:
        """Return the row of each job in the table, as `Jobs.interference_kind`. kinds: uid and kind of each job."""
        if self.table is None:
            return None
        return np.array([self._row.get(kind_name(*kind), UNKNOWN_KIND) for kind in kinds], np.int64)

    def published(self) -> dict[str, object] | None:
        """Return the part of the published status on it; None: the style of placement does not use it."""
        if not self._used:
            return None
        found = self._learning.learned
        return {
            "used": found.table is not None,
            "kinds": len(found.table.kinds) if found.table else 0,
            "samples": found.samples,
            "error": rounded(found.error),
            "error_without": rounded(found.error_without),
        }


def _begin(found: RunsToLearn) -> Iterator[LearnedInterference | None]:
    return learning(co_run_samples(found.runs, found.since))
