"""Nodes on which runs fail, by the journal of this cluster's controller."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine
from tiresias.slurm_plugin.doctor.journal_check import of_journal
from tiresias.slurm_plugin.observation.node_failures import found_in
from tiresias.slurm_plugin.state.journal_history import History

_ABOUT = "failing nodes"


def findings(journal: Path) -> Iterator[Finding]:
    """Yield a finding for each node, one where none fails, and nothing where the controller never ran here."""
    return of_journal(journal, _ABOUT, _found)


def _found(history: History) -> Iterator[Finding]:
    found = found_in(history, time.time())
    for name, failures in sorted(found.items()):
        yield Finding(
            Level.RISK, _ABOUT, f"{name}: {failures.words}", f"check the GPUs of {name}, then drain or restart it"
        )
    if not found:
        yield fine(_ABOUT, "none, by the runs of the last week")
