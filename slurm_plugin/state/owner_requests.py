"""The request of each job as its owner made it, kept in the journal while the controller's pin replaces it in Slurm's record."""

from __future__ import annotations

import math
from typing import NamedTuple

from tiresias.protocol.elastic_sizes import FIXED
from tiresias.protocol.opportunistic_choice import combined
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode
from tiresias.slurm_plugin.state import own_size, own_tasks, pins
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow


class PinnedStart(NamedTuple):
    """A start with a pin.

    Attributes:
        began: When it was decided, epoch seconds.
        replaced: When the next start was decided; inf: there is none.
        pin: As in JobRow.pin.
    """

    began: float
    replaced: float
    pin: str


class OwnerRequests:
    """Reads the owners' requests from Slurm's records into the rows of the journal.

    Attributes:
        cluster: The nodes of the newest snapshot.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal, self.cluster = journal, tuple[SlurmNode, ...]()

    def note(self, row: JobRow, job: SlurmJob) -> bool:
        """Store a changed request of a waiting job; a pinned job's record shows the pin instead.

        Returns:
            Whether the record shows a pin, although that was removed; the request is then left as it is.
        """
        if job.state != "PENDING" or job.completing:
            return False
        if row.pinned:
            self._note_without_pin(row, job)
            return False
        if own_tasks.is_elastic(row):
            return self._note_own_size(row, job)
        if own_tasks.is_at_risk(job) and not own_tasks.is_noted(row, job):
            row.asked = own_tasks.write(job)
            self._journal.save_job(row)
        if _is_stored(row, job):
            return False
        if self.starts_shown(row, job):
            return True
        self.adopt(row, job)
        return False

    def _note_without_pin(self, row: JobRow, job: SlurmJob) -> None:
        """Store a changed request of a job whose pin is journaled and not in the record.

        The controller was killed between a call and its journal: before the pin was made, or after it was removed. The pin stays in
        the journal: Slurm may make it late.
        """
        if not _is_stored(row, job) and not own_tasks.is_elastic(row) and not pins.shows_any(row, job):
            self.adopt(row, job)

    def _note_own_size(self, row: JobRow, job: SlurmJob) -> bool:
        """Store the size that the owner of a waiting elastic job has given to it since; return as `note`."""
        if self.starts_shown(row, job):
            return True
        if changed := own_tasks.changed_size(row, job):
            row.asked, row.rigid, row.unpinnable = own_tasks.write(changed), "", ""
            if not job.restarts:  # 22.05 then shows the nodes of the last run
                read(row, changed)
            self._set_range(row, changed.gpus)
            self._journal.save_job(row)
        return False

    def find_forgotten_start(self, row: JobRow, job: SlurmJob) -> None:
        """Detect that a killed slurmctld shows a job as it was before its start: held by the controller, without the pin.

        A hold that any user sets after the start leaves the pin in the record.
        """
        held = job.state == "PENDING" and not job.completing and job.priority == 0 and not job.held_by_user
        if held and row.pinned and not row.held and not pins.shows_any(row, job):
            row.held, row.pinned = True, False
            self._journal.save_job(row)

    def note_stated(self, row: JobRow, job: SlurmJob, restored: SlurmJob) -> None:
        """Store what the record states of the owner's choices. restored: the job as own_tasks.py returns it."""
        self.note_gpus(row, job)
        if not row.opportunistic:  # else it is known, or its supervisor has reported it
            self.note_choice(row, job.opportunistic)
        if not row.elastic and job.elastic != FIXED:
            self.note_elastic(row, job.elastic, restored)

    def note_gpus(self, row: JobRow, job: SlurmJob) -> None:
        """Store the GPUs of the request. A running job's record shows what it holds, which may be more (--exclusive)."""
        if own_size.stated(row):
            return
        is_request = job.state == "PENDING" and not job.completing and not row.pinned
        if (is_request or not row.min_gpus) and (row.min_gpus, row.max_gpus) != (job.gpus, job.gpus):
            row.min_gpus = row.max_gpus = job.gpus
            self._journal.save_job(row)

    def note_choice(self, row: JobRow, choice: str) -> None:
        """Store the owner's choice of `tsbatch --opportunistic`; "", not known, leaves what is stored."""
        chosen = combined(row.opportunistic, choice)
        if row.opportunistic != chosen:
            row.opportunistic = chosen
            self._journal.save_job(row)

    def note_elastic(self, row: JobRow, stated: str, job: SlurmJob) -> None:
        """Store the sizes that the owner states; "", not known, and what follows "fixed" leave what is stored."""
        if not stated or row.rigid or row.elastic in (stated, FIXED):
            return
        row.elastic = stated if own_size.can_change(job) else FIXED
        if own_size.stated(row):
            self._set_range(row, job.gpus)
            is_request = job.state == "PENDING" and not job.completing and not row.pinned
            row.asked = own_tasks.write(job) if is_request else row.asked
        self._journal.save_job(row)

    @staticmethod
    def _set_range(row: JobRow, gpus: int) -> None:
        """Set the fewest and the most GPUs of an elastic job. gpus: of its request."""
        if sizes := own_size.stated(row):
            row.min_gpus, row.max_gpus = min(sizes.least, gpus), max(sizes.most, gpus)

    def fix_size(self, row: JobRow, why: str) -> None:
        """Let an elastic job keep the size that its owner requested. why: a stored reason of `Rigid`."""
        row.rigid = why
        if kept := own_tasks.read(row):  # else the controller did not start it
            row.min_gpus = row.max_gpus = kept["gpus"]
        self._journal.save_job(row)

    def adopt(self, row: JobRow, job: SlurmJob) -> None:
        """Store the nodes of the record as the owner's request."""
        read(row, job)
        row.unpinnable = ""
        self._journal.save_job(row)

    def starts_shown(self, row: JobRow, job: SlurmJob) -> list[PinnedStart]:
        """Return the starts of a job without a pin whose pins the record shows, the newest first; [] where it shows the request."""
        if _is_stored(row, job) or not (job.required_nodes or job.excluded_nodes):
            return []
        found, replaced, names = [], math.inf, {node.name for node in self.cluster}
        for start in self._journal.starts(row.key):
            if (pin := pins.shown(row, job, [node for node, _ in start.nodes], names)) is not None:
                found.append(PinnedStart(start.began, replaced, pin))
            replaced = start.began
        return found


def read(row: JobRow, job: SlurmJob) -> None:
    """Set the row's nodes to those of the record."""
    row.min_nodes, row.max_nodes, row.required, row.excluded = _node_request(job, row.max_nodes)


def _is_stored(row: JobRow, job: SlurmJob) -> bool:
    return (row.min_nodes, row.max_nodes, row.required, row.excluded) == _node_request(job, row.max_nodes)


def _node_request(job: SlurmJob, known_most: int) -> tuple[int, int, str, str]:
    """Return min_nodes, max_nodes, required and excluded nodes as in JobRow.

    known_most: max_nodes as stored. A slurmctld that was started since shows 0 for it, and a large number where an update has
    removed the limit.
    """
    return job.min_nodes, job.max_nodes or known_most, ",".join(job.required_nodes), ",".join(job.excluded_nodes)
