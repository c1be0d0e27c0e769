"""Compare the journal's runs with those of Slurm's accounting: runs that one of them lacks, and times that differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tiresias.slurm_plugin.accounting.accounted_jobs import AccountedJob, AccountedRun
from tiresias.slurm_plugin.state.journal_rows import RunRow

TOLERANCE_S = 1.0  # both record whole seconds
SAME_RUN_S = 60.0  # between the starts that the two record for one run, at most
LAG_S = 60.0  # by which slurmdbd, or a cycle of the controller, may be late


@dataclass(frozen=True, slots=True)
class Difference:
    """One run that the journal and accounting record differently.

    Attributes:
        what: The kind of difference, for users.
        journal: (start, end, GPUs) of the run in the journal; None where it is missing. The end is 0 while it runs.
        accounting: The same of the run in accounting.
    """

    job: str
    restart: int
    what: str
    journal: tuple[float, float, int] | None
    accounting: tuple[float, float, int] | None


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of a comparison.

    Attributes:
        runs: The number of runs that both have.
        largest: The largest difference between two lengths of one run, in seconds.
    """

    runs: int
    largest: float
    differences: tuple[Difference, ...]


def audit(journal: Iterable[tuple[str, RunRow]], accounted: Iterable[AccountedJob], since: float, now: float) -> Audit:
    """Compare the runs that began at `since` or later; O(runs).

    A run that began or ended within LAG_S of `now` is not judged: one of the two may not have recorded it yet.
    """
    journaled: dict[tuple[str, int], list[RunRow]] = defaultdict(list)
    for job_id, row in journal:
        journaled[job_id, row.restart].append(row)
    largest, both, found = 0.0, 0, []
    for job in accounted:
        for run in (run for run in job.runs if run.start >= since):
            match = _matching(journaled[job.id, run.restart], run)
            both += match is not None
            if match and match.end and run.end:
                largest = max(largest, abs((match.end - match.start) - (run.end - run.start)))
            if what := _difference(match, run, now):
                found.append(Difference(job.id, run.restart, what, _times(match) if match else None, _times(run)))
    for (job_id, restart), rows in journaled.items():
        missing = [row for row in rows if now - row.start > LAG_S]
        found += [Difference(job_id, restart, "not in accounting", _times(row), None) for row in missing]
    return Audit(both, largest, tuple(sorted(found, key=lambda one: (one.job, one.restart))))


def _matching(candidates: list[RunRow], run: AccountedRun) -> RunRow | None:
    """Remove the row of this run from the candidates. There may be several: Slurm reuses job ids, and restart counts with them."""
    for at, row in enumerate(candidates):
        if abs(row.start - run.start) <= SAME_RUN_S:
            return candidates.pop(at)
    return None


def _difference(row: RunRow | None, run: AccountedRun, now: float) -> str:
    if row is None:
        return "not in the journal" if now - run.start > LAG_S else ""
    if row.gpus != run.gpus:
        return "GPUs differ"
    if bool(row.end) != bool(run.end):
        return "only one of them has ended" if now - (row.end or run.end) > LAG_S else ""
    length, other = row.end - row.start, run.end - run.start
    return "times differ" if row.end and abs(length - other) > TOLERANCE_S else ""


def _times(run: RunRow | AccountedRun) -> tuple[float, float, int]:
    return run.start, run.end, run.gpus
