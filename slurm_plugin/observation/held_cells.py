"""Which cells of its virtual cluster each job holds, or is promised by its start under way, as the journal has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state import owned_cells
from tiresias.slurm_plugin.state.intents import Intent, IntentKind
from tiresias.slurm_plugin.state.ledger import Ledger


def cells_of(shown: Sequence[SlurmJob], intents: Mapping[str, Intent], ledger: Ledger) -> list[Mapping[str, str]]:
    """Return for each job the type of its virtual cluster's cell on each of its nodes, by the node's name."""
    return [owned_cells.read(_written(job, intents.get(job.id), ledger)) for job in shown]


def _written(job: SlurmJob, intent: Intent | None, ledger: Ledger) -> str:
    if intent is not None and intent.kind == IntentKind.START:
        return intent.cells
    run = ledger.runs[ledger.jobs[job.id].key].get(job.restarts)
    return run.cells if run else ""
