"""Nodes that are persistently slow, by the journal of this cluster's controller."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine
from tiresias.slurm_plugin.doctor.journal_check import of_journal
from tiresias.slurm_plugin.observation.journal_node_speeds import speeds_in
from tiresias.slurm_plugin.state.journal_history import History

_ABOUT = "slow nodes"


def findings(journal: Path) -> Iterator[Finding]:
    """Yield a finding for each node, one where none is slow, and nothing where the controller never ran here."""
    return of_journal(journal, _ABOUT, _found)


def _found(history: History) -> Iterator[Finding]:
    slow = speeds_in(history, time.time()).slow
    for name, speed in slow.items():
        todo = (
            f"check clocks, power limits, temperature and load of {name} (nvidia-smi -q -d PERFORMANCE), then drain it; "
            'placement.style = "fastest_nodes" avoids it'
        )
        yield Finding(Level.RISK, _ABOUT, f"{name}: {speed.words}", todo)
    if not slow:
        yield fine(_ABOUT, "none, by the step times of the last two weeks")
