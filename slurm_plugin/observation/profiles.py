"""The network traffic of jobs: the summaries that trial runs wrote to the users' control folders.

These are files of users: they are trusted only if they are small, plain and owned by the user (protocol/control.py,
protocol/profile_summary.py), and only about that user's jobs. A summary applies to all jobs of its kind (user, name, script, GPUs).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import control
from tiresias.protocol.job_kind import Key
from tiresias.protocol.profile_summary import Summary, from_object
from tiresias.slurm_plugin.backends.interface import SlurmJob

# Seconds until the file of a job kind is read again: one whose summary is not final, one whose summary is.
PROVISIONAL_POLL_S, FINAL_POLL_S = 30.0, 3600.0


class _Seen(NamedTuple):
    summary: Summary | None
    until: float


class Profiles:
    """The summaries by job kind; a poll costs O(jobs), and a file read for each kind that is due."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: dict[tuple[int, Key], _Seen] = {}

    def poll(self, jobs: Sequence[SlurmJob], now: float) -> Mapping[str, Summary]:
        """Return the known summaries by job id; kinds without a job are forgotten."""
        kinds = {job.id: (job.uid, Key(job.name, job.script, job.gpus)) for job in jobs if job.script}
        self._seen = {kind: self._fresh(kind, now) for kind in set(kinds.values())}
        return {job: summary for job, kind in kinds.items() if (summary := self._seen[kind].summary)}

    def _fresh(self, kind: tuple[int, Key], now: float) -> _Seen:
        seen = self._seen.get(kind)
        if seen and now < seen.until:
            return seen
        uid, key = kind
        found = from_object(key, control.read(control.profiles_folder(self._root, uid) / key.file, uid))
        return _Seen(found, now + (FINAL_POLL_S if found and found.is_final else PROVISIONAL_POLL_S))
