"""The attained service that the controller publishes, and decides by, against the sum of all runs in Slurm's completion log.

The log and not slurmdbd: that one keeps no row of a run whose start it had not acknowledged when the job was requeued, as right
after a restart of slurmctld.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.samples import Sample

SLACK = 3.0  # seconds for each run: Slurm's seconds are whole, and a snapshot is as old as a cycle takes


@dataclass(frozen=True, slots=True)
class Accounted:
    """A run that ended."""

    id: str
    name: str
    start: float
    end: float
    gpus: int

    def seconds(self, now: float) -> float:
        return max(0.0, min(self.end, now) - self.start)


def promoted(journal: Path) -> set[str]:
    """Ids whose service began to count anew."""
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as db:
        return {str(row[0]) for row in db.execute("select distinct id from decision where action = 'promote'")}


def service_wrong(
    samples: Sequence[Sample],
    rows: Iterable[Accounted],
    blind: Sequence[tuple[float, float]],
    leave_out: Mapping[str, object],
) -> tuple[list[str], int]:
    """leave_out: names of jobs of which Slurm itself lost something, and ids that were promoted. Returns also how many values
    were compared."""
    by_job: dict[tuple[str, str], list[Accounted]] = {}
    for row in rows:
        by_job.setdefault((row.id, row.name), []).append(row)
    broken, compared = dict[str, str](), 0
    for sample, job, name, attained in _values(samples):
        runs = [row for row in by_job.get((job, name), ()) if row.start <= sample.published]
        if not runs or name in leave_out or job in leave_out:
            continue
        compared += 1
        expected = sum(row.gpus * row.seconds(sample.published) for row in runs)
        slack = sum(row.gpus * (SLACK + _unseen(row, blind)) for row in runs)
        if abs(attained - expected) > slack:
            broken.setdefault(
                name, f"{name} ({job}): {attained:.0f} GPU-seconds published, {expected:.0f} accounted: {runs}"
            )
    return list(broken.values()), compared


def _values(samples: Sequence[Sample]) -> Iterator[tuple[Sample, str, str, float]]:
    for sample in samples:
        if sample.is_complete:
            yield from (
                (sample, job, sample.names[job], value) for job, value in sample.attained.items() if job in sample.names
            )


def _unseen(row: Accounted, blind: Sequence[tuple[float, float]]) -> float:
    """Seconds by which the controller may have seen the end of the run late."""
    return max((last - first for first, last in _merged(blind) if first <= row.end <= last), default=0.0)


def _merged(blind: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Overlapping periods as one: what ends in the first may be seen after the last."""
    merged = list[tuple[float, float]]()
    for first, last in sorted(blind):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged
