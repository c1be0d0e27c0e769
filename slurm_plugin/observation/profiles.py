"""What is known of the network traffic of jobs: the summaries that trial runs left in the users' control folders.

Files of users: small, theirs, plain, or not believed (protocol/control.py, protocol/profile_summary.py), and believed about that
user's jobs only. Once a kind of job (user, name, script, GPUs) is known, all jobs of that kind are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import control
from tiresias.protocol.job_kind import Key
from tiresias.protocol.profile_summary import Summary, from_object
from tiresias.slurm_plugin.backends.interface import SlurmJob

SOON, LATER = 30.0, 3600.0  # seconds until a kind is looked at again: one that is not settled, one that is


class _Seen(NamedTuple):
    summary: Summary | None
    until: float


class Profiles:
    """O(jobs) a look, and a file read for each kind of job that is due."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: dict[tuple[int, Key], _Seen] = {}

    def look(self, jobs: Sequence[SlurmJob], now: float) -> Mapping[str, Summary]:
        """By job id, of those of which something is known. Kinds of which no job is left are forgotten."""
        kinds = {job.id: (job.uid, Key(job.name, job.script, job.gpus)) for job in jobs if job.script}
        self._seen = {kind: self._fresh(kind, now) for kind in set(kinds.values())}
        return {job: summary for job, kind in kinds.items() if (summary := self._seen[kind].summary)}

    def _fresh(self, kind: tuple[int, Key], now: float) -> _Seen:
        seen = self._seen.get(kind)
        if seen and now < seen.until:
            return seen
        uid, key = kind
        found = from_object(key, control.read(control.profiles_folder(self._root, uid) / key.file, uid))
        return _Seen(found, now + (LATER if found and found.is_final else SOON))
