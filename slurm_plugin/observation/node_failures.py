"""The nodes on which runs of managed jobs fail, by the journal's runs of the last week."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from tiresias.scheduler.estimates.failing_nodes import NodeRuns, failing_nodes
from tiresias.scheduler.model import Bools, Ints
from tiresias.slurm_plugin.state.journal_history import EndedRun
from tiresias.slurm_plugin.state.nodes_of_runs import node_names

INTERVAL_S = 300.0  # between two reads of the journal
WEEK_S = 7 * 86400.0
MOST_JOBS = 5_000  # the newest that count


class NodeFailures(NamedTuple):
    """What is known of a node on which runs fail. Counts have weights by age (scheduler/estimates/failing_nodes.py).

    Attributes:
        failures: Failed runs.
        expected: Failures of the same scripts that were to be expected.
        users: Users of the failed runs.
    """

    failures: float
    expected: float
    users: int

    @property
    def words(self) -> str:
        """What is known, without the name of the node."""
        return f"{self.failures:.1f} runs of {self.users} users failed there, {self.expected:.1f} expected of their scripts"


class EndedRuns(Protocol):
    """Where ended runs are read: a journal."""

    def ended_runs(self, since: float, most: int) -> list[EndedRun]:
        """Return the runs of the newest jobs that ended after an epoch second, of at most so many jobs."""
        ...


class FailingNodesOfJournal:
    """Finds nodes on which runs fail.

    Args:
        runs: The ended runs.

    Attributes:
        found: The nodes, by name.
    """

    def __init__(self, runs: EndedRuns) -> None:
        self.found: Mapping[str, NodeFailures] = {}
        self._runs, self._next = runs, 0.0

    def learn(self, now: float) -> None:
        """Read the journal where that is due."""
        if not self._next - INTERVAL_S <= now < self._next:
            self._next = now + INTERVAL_S
            self.found = found_in(self._runs, now)

    def last_resort(self, names: Collection[str]) -> Bools | None:
        """Return which of these nodes fail, shape (nodes,); None: none."""
        if self.found.keys().isdisjoint(names):
            return None
        return np.fromiter((name in self.found for name in names), bool, len(names))

    def alarms(self) -> list[str]:
        """Return a line for each node."""
        return [
            f"node {name}: {one.words}; check its GPUs, then drain or restart it"
            for name, one in sorted(self.found.items())
        ]


def found_in(runs: EndedRuns, now: float) -> dict[str, NodeFailures]:
    """Return the nodes on which runs fail, by name. O(runs of the last week, of the newest MOST_JOBS jobs)."""
    rows = [row for run in runs.ended_runs(now - WEEK_S, MOST_JOBS) for row in _rows(run)]
    names, node = _numbered(row[0] for row in rows)
    _, kind = _numbered(row[2:4] for row in rows)
    user, failed, end = (np.array([row[place] for row in rows], np.float64) for place in (2, 1, 4))
    result = failing_nodes(NodeRuns(node, kind, user.astype(np.int64), failed > 0.0, now - end), len(names))
    return {
        name: NodeFailures(float(result.failures[row]), float(result.expected[row]), int(result.users[row]))
        for row, name in enumerate(names)
        if result.fails[row]
    }


def _rows(run: EndedRun) -> Iterator[tuple[str, bool, int, str, float]]:
    """Yield node, whether it failed, user, kind and end for each node of a run; a slow node counts as a failure."""
    slow = run.slow_nodes.split(",")
    for name in node_names(run.nodes):
        yield name, bool(run.failed) or name in slow, run.uid, run.kind, run.end


def _numbered(values: Iterable[Any]) -> tuple[list[Any], Ints]:
    """Return the different values, and the number of each value among them."""
    number: dict[Any, int] = {}
    index = [number.setdefault(value, len(number)) for value in values]
    return list(number), np.array(index, np.int64)
