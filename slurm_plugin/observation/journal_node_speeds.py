"""The speeds of nodes, learned from the timed runs of the journal (`runs_to_learn.py`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from tiresias.scheduler.estimates.learned_node_speeds import NO_SPEEDS, LearnedNodeSpeeds, NodeSpeed, speeds_learning
from tiresias.scheduler.estimates.speed_samples import speed_samples
from tiresias.scheduler.model import Floats
from tiresias.slurm_plugin.observation.runs_to_learn import (
    JournalRuns,
    LearningInParts,
    RunsOnNodes,
    RunsToLearn,
    kind_name,
    rounded,
)


class JournalNodeSpeeds:
    """Learns the speeds of nodes.

    Args:
        runs: The runs.
        used: Whether the style of placement uses them; they are learned and published in any case.
    """

    def __init__(self, runs: JournalRuns, used: bool) -> None:
        self._used = used
        self._learning = LearningInParts(runs, _begin, NO_SPEEDS, "speeds of nodes")

    def learn(self, now: float) -> None:
        """Read the journal where that is due, else continue to learn from it for one part of the computation."""
        self._learning.learn(now)

    @property
    def nodes(self) -> Mapping[str, NodeSpeed]:
        """What is known of nodes, by name; empty: their speeds do not surely differ."""
        return self._learning.learned.nodes

    def slowness(self, names: Collection[str]) -> Floats | None:
        """Return the slowness of these nodes as `Nodes.slowness`; None: jobs are not placed by it, or nothing is known."""
        if not self._used or not self.nodes:
            return None
        return np.array([self.nodes[name].slowness if name in self.nodes else 1.0 for name in names])

    def sensitivity(self, kinds: Sequence[tuple[int, str]]) -> Floats | None:
        """Return the sensitivity of jobs as `Jobs.speed_sensitivity`; None as above. kinds: uid and kind of each job."""
        if not self._used or not self.nodes:
            return None
        known = self._learning.learned.sensitivity
        return np.array([known.get(kind_name(*kind), 1.0) for kind in kinds], np.float64)

    def published(self) -> dict[str, object]:
        """Return the part of the published status on them."""
        found = self._learning.learned
        return {
            "used": bool(found.nodes),
            "samples": found.samples,
            "error": rounded(found.error),
            "error_without": rounded(found.error_without),
            "slow": list(found.slow),
        }


def speeds_in(runs: RunsOnNodes, now: float) -> LearnedNodeSpeeds:
    """Return the speeds at once. now: epoch second."""
    found = NO_SPEEDS
    for part in _begin(JournalRuns(runs).at(now)):
        found = part or found
    return found


def _begin(found: RunsToLearn) -> Iterator[LearnedNodeSpeeds | None]:
    return speeds_learning(speed_samples(found.runs, found.since), found.now)
