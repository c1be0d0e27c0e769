"""Jobs by record, read again only when their signature changed.

`squeue --json` takes a millisecond a job (10,000 jobs: 9 s, 83 MB), a line that shows whether a job changed takes 40 us.
So a steady queue costs one cheap listing, and only what moved is read in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from tiresias.slurm_plugin.backends.interface import SlurmJob

CHUNK = 1000  # records per question: about a second each


class JobCache:
    """The jobs of the newest snapshot, with the signature of each record."""

    def __init__(self, read: Callable[[Sequence[str]], Iterable[SlurmJob]]) -> None:
        """`read`: the jobs of these record numbers, in full; it may give others too, and those that are gone are missing."""
        self._read = read
        self._jobs: dict[int, tuple[SlurmJob, ...]] = {}
        self._signatures: dict[int, object] = {}

    def refresh(self, signatures: Mapping[int, object]) -> None:
        """Make the cache show exactly these records. Raises what `read` raises; what was read until then is kept."""
        for gone in self._jobs.keys() - signatures.keys():
            del self._jobs[gone], self._signatures[gone]
        self.update(signatures)

    def update(self, signatures: Mapping[int, object]) -> None:
        """As `refresh`, for some records only."""
        known = self._signatures.get
        stale = {one for one, new in signatures.items() if known(one) is not new and known(one) != new}
        while stale:
            chunk = sorted(stale)[:CHUNK]
            found = _by_record(self._read([str(one) for one in chunk]))
            for one in found.keys() & signatures.keys():
                self.put(one, found[one], signatures[one])
            stale -= found.keys() | set(chunk)

    def put(self, record: int, jobs: Sequence[SlurmJob], signature: object) -> None:
        """Store the jobs of a record under its signature."""
        self._jobs[record], self._signatures[record] = tuple(jobs), signature

    def signature(self, record: int) -> object:
        """Return the stored signature of a record; None where it is not stored."""
        return self._signatures.get(record)

    def of(self, record: int) -> tuple[SlurmJob, ...]:
        """Return the jobs of a record; none where it is not stored."""
        return self._jobs.get(record, ())

    def __iter__(self) -> Iterator[SlurmJob]:
        return chain.from_iterable(map(self._jobs.__getitem__, sorted(self._jobs)))


def _by_record(jobs: Iterable[SlurmJob]) -> dict[int, list[SlurmJob]]:
    found: dict[int, list[SlurmJob]] = {}
    for job in jobs:
        found.setdefault(job.raw_id, []).append(job)
    return found
