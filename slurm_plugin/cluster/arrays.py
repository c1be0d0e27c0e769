"""Tasks of an array that is not split yet are one record of Slurm's. One call about all of them keeps it one; a call about one of
them takes it out. So an array of ten thousand tasks is held with one call, and slurmctld has one record to look at."""

from __future__ import annotations

from collections.abc import Iterable

from tiresias.slurm_plugin.backends import parse
from tiresias.slurm_plugin.backends.interface import SlurmJob

LONGEST = 200  # characters of the numbers: they stand in command lines, and in names of files


def together(jobs: Iterable[SlurmJob]) -> dict[str, list[SlurmJob]]:
    """The jobs by what a call about them names: "7", "7_3", or "7_[0-4,9]" for tasks that share a record. In the order of the
    first of each."""
    records: dict[int, list[SlurmJob]] = {}
    for job in jobs:
        records.setdefault(job.raw_id, []).append(job)
    return {name: part for record in records.values() for name, part in _named(record)}


def members(name: str) -> list[str]:
    """The ids of the jobs that a name of `together` is about."""
    array, _, tasks = name.partition("_[")
    return [f"{array}_{task}" for task in parse.integers(tasks[:-1])] if tasks else [name]


def _named(record: list[SlurmJob]) -> Iterable[tuple[str, list[SlurmJob]]]:
    tasks = parse.ranges(sorted(int(job.id.rpartition("_")[2]) for job in record)) if len(record) > 1 else ""
    if not tasks or len(tasks) > LONGEST:
        return [(job.id, [job]) for job in record]
    return [(f"{record[0].array_id}_[{tasks}]", record)]
