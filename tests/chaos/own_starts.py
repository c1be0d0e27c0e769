"""Jobs that Slurm itself started, as no controller held them: those that were submitted while it was down.

Such a job may take the GPUs of a start that an earlier controller had decided, and that the next one goes on with. Slurm does not
start that job then, and the controller tries again on other nodes (`not started`). The time of such a try counts as an outage.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator

from tests.chaos.checks import LoggedRun
from tests.chaos.guarantees import ROUNDED_S, start_of
from tests.chaos.windows import Window, Windows

UNHELD_S = 10.0  # after an outage of the controller, in which it has not held the new jobs yet
TRIES = "select id, began, stepped, nodes from intent where kind = 'start' and outcome like 'not started%'"


def own_starts(journal: sqlite3.Connection, runs: Iterable[LoggedRun], blind: Windows) -> list[LoggedRun]:
    """Return the runs without a start in the journal that began while the controller was down (`blind`), or shortly after."""
    return [
        run
        for run in runs
        if run.managed
        and blind.touch(run.start - UNHELD_S, run.start + ROUNDED_S)
        and start_of(journal, run.id, run.start + ROUNDED_S, "began", run.submit - ROUNDED_S) is None
    ]


def frustrated(
    journal: sqlite3.Connection, own: Iterable[LoggedRun], name: Callable[[str, float], str]
) -> Iterator[Window]:
    """Yield the times of tries on nodes on which such a run began meanwhile, each with the name of its job or task."""
    found = [(run.start, set(run.nodes)) for run in own]
    for job, began, stepped, nodes in journal.execute(TRIES):
        wanted = {node for node, _ in json.loads(nodes or "[]")}
        if any(began - ROUNDED_S <= start <= stepped and wanted & taken for start, taken in found):
            yield Window(began, stepped, name(job, began))
