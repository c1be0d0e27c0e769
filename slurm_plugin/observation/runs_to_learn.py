"""The timed runs of the journal, from which the controller learns the interference of jobs and the speeds of nodes.

The journal is read once in INTERVAL_S; what is read is learned from in parts, one after each cycle, and none of it is stored. Jobs
that are not managed are not in the journal: what they do to a run counts as noise.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from tiresias.scheduler.estimates.co_located_runs import OWNER_END, NodeRun
from tiresias.slurm_plugin.state.journal_history import NodesOfRun, RecentRuns
from tiresias.slurm_plugin.state.nodes_of_runs import node_names

log = logging.getLogger("tiresias")

INTERVAL_S = 600.0  # between two reads of the journal
PERIOD_S = 14 * 86400.0  # the newest runs that count
MOST_JOBS = 1_000  # that ended, the newest ones

Learned = TypeVar("Learned")


class RunsOnNodes(Protocol):
    """Where runs are read: a journal."""

    def nodes_of_runs(self, since: float, most: int) -> RecentRuns:
        """Return the runs of live jobs, and those of the newest jobs that ended after an epoch second, of at most so many."""
        ...


class RunsToLearn(NamedTuple):
    """Runs, the epoch second from which on all runs are among them, and the present one."""

    runs: list[NodeRun]
    since: float
    now: float


_NOTHING = RunsToLearn([], 0.0, math.nan)


class JournalRuns:
    """Reads the runs. What learns from them at the same moment shares one read. runs: where they are read."""

    def __init__(self, runs: RunsOnNodes) -> None:
        self._runs, self._newest = runs, _NOTHING

    def at(self, now: float) -> RunsToLearn:
        """Return the runs at an epoch second. O(the runs of the last PERIOD_S, of the newest MOST_JOBS jobs)."""
        if now != self._newest.now:
            found = self._runs.nodes_of_runs(now - PERIOD_S, MOST_JOBS)
            self._newest = RunsToLearn([_run(run, now) for run in found.runs], found.since, now)
        return self._newest

    def forget(self) -> None:
        """Free the memory of the last read."""
        self._newest = _NOTHING


class LearningInParts(Generic[Learned]):
    """Learns one thing from the runs.

    Args:
        runs: The runs.
        begin: The runs -> an iterator over None after each part of the computation, then the result.
        nothing: The result where nothing can be learned.
        about: What is learned, for the log.

    Attributes:
        learned: The newest result.
    """

    def __init__(
        self, runs: JournalRuns, begin: Callable[[RunsToLearn], Iterator[Learned | None]], nothing: Learned,
        about: str,
    ) -> None:  # fmt: skip
        self.learned = nothing
        self._runs, self._begin, self._nothing, self._about, self._next = runs, begin, nothing, about, 0.0
        self._work: Iterator[Learned | None] = iter(())

    def learn(self, now: float) -> bool:
        """Read the runs where that is due, else continue to learn from them for one part. Returns whether there is a new result."""
        try:
            if not self._next - INTERVAL_S <= now < self._next:
                self._next, self._work = now + INTERVAL_S, self._begin(self._runs.at(now))
                return False
            found = next(self._work, None)
        except (ArithmeticError, ValueError) as error:  # of times that programs caused
            found, self._work = self._nothing, iter(())
            log.warning("no %s can be learned from the journal: %s", self._about, error)
        if found is None:
            return False
        self.learned = found
        return True


def kind_name(uid: int, kind: str) -> str:
    """Return the name of a kind of jobs in what is learned; kinds that differ only in their GPUs are alike ("" for an unknown
    kind)."""
    script, _, rest = kind.partition("-")
    gpus, _, name = rest.partition("-")
    return f"u{uid}{OWNER_END}{script}.{name} {gpus}" if kind else ""


def rounded(value: float) -> float | None:
    """Return a number as it is published; None for nan."""
    return None if math.isnan(value) else round(value, 4)


def _run(run: NodesOfRun, now: float) -> NodeRun:
    seconds = math.nan if run.timed is None else run.timed
    kind = kind_name(run.uid, run.kind)
    return NodeRun(kind, run.gpus, node_names(run.nodes), run.start, run.end or now, seconds, run.key)
