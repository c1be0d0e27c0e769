"""Findings from the journal of this cluster's controller."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from tiresias.slurm_plugin.cluster.finding import Finding, Level
from tiresias.slurm_plugin.state.journal_history import History


def of_journal(journal: Path, about: str, found: Callable[[History], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield the findings in a journal, one where it cannot be read, and nothing where the controller never ran here.

    Args:
        journal: The file.
        about: What the check is about.
        found: Reads the findings.
    """
    if not journal.exists():
        return
    try:
        with closing(History.of(journal)) as history:
            yield from found(history)
    except sqlite3.Error as error:
        todo = "start this version of the controller, which upgrades it"
        yield Finding(Level.ADVICE, about, f"{journal}: {error}", todo)
