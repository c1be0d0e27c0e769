"""What the controller learns from the timed runs of its journal: the interference of jobs and the speeds of nodes."""

from __future__ import annotations

from tiresias.scheduler.place.placements import uses_interference
from tiresias.slurm_plugin.config.sections import Placement
from tiresias.slurm_plugin.observation.job_styles import FASTEST_NODES
from tiresias.slurm_plugin.observation.journal_interference import JournalInterference
from tiresias.slurm_plugin.observation.journal_node_speeds import JournalNodeSpeeds
from tiresias.slurm_plugin.observation.runs_to_learn import JournalRuns, RunsOnNodes


class LearnedFromRuns:
    """Learns both from one read of the journal.

    Args:
        runs: Where the runs are read.
        placement: The configuration: its style uses one, or neither.

    Attributes:
        interference: How much jobs slow each other.
        node_speeds: How slow nodes are.
    """

    def __init__(self, runs: RunsOnNodes, placement: Placement) -> None:
        self._runs = JournalRuns(runs)
        self.interference = JournalInterference(self._runs, uses_interference(placement.style))
        self.node_speeds = JournalNodeSpeeds(self._runs, placement.style == FASTEST_NODES)

    def learn(self, now: float) -> None:
        """Read the journal where that is due, else continue to learn from it for a part of the computations."""
        self.interference.learn(now)
        self.node_speeds.learn(now)
        self._runs.forget()
