"""The journal's runs against those of Slurm's accounting: what one has and the other has not, and where their times differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tiresias.slurm_plugin.accounting.accounted_jobs import AccountedJob, AccountedRun
from tiresias.slurm_plugin.state.journal_rows import RunRow

TOLERANCE = 1.0  # seconds: both write whole ones
SAME_RUN = 60.0  # seconds between two starts that are told of one run
LAG = 60.0  # seconds that slurmdbd, or a cycle of the controller, may be behind


@dataclass(frozen=True, slots=True)
class Difference:
    """journal, accounting: (start, end, GPUs) of the run; None where it is missing. end: 0 while it runs."""

    job: str
    restart: int
    what: str
    journal: tuple[float, float, int] | None
    accounting: tuple[float, float, int] | None


@dataclass(frozen=True, slots=True)
class Audit:
    """runs: that both have. largest: seconds between two lengths of one run."""

    runs: int
    largest: float
    differences: tuple[Difference, ...]


def audit(journal: Iterable[tuple[str, RunRow]], accounted: Iterable[AccountedJob], since: float, now: float) -> Audit:
    """Of the runs that began at `since` or later. What began or ended within LAG of `now` is not judged: one of the two may not
    know yet. O(runs)."""
    ours: dict[tuple[str, int], list[RunRow]] = defaultdict(list)
    for job_id, run in journal:
        ours[job_id, run.restart].append(run)
    largest, both, found = 0.0, 0, []
    for job in accounted:
        for theirs in (run for run in job.runs if run.start >= since):
            one = _partner(ours[job.id, theirs.restart], theirs)
            both += one is not None
            if one and one.end and theirs.end:
                largest = max(largest, abs((one.end - one.start) - (theirs.end - theirs.start)))
            if what := _difference(one, theirs, now):
                found.append(Difference(job.id, theirs.restart, what, _told(one) if one else None, _told(theirs)))
    for (job_id, restart), left in ours.items():
        found += [
            Difference(job_id, restart, "not in accounting", _told(one), None) for one in left if now - one.start > LAG
        ]
    return Audit(both, largest, tuple(sorted(found, key=lambda one: (one.job, one.restart))))


def _partner(candidates: list[RunRow], theirs: AccountedRun) -> RunRow | None:
    """Taken out of the candidates. A job's id and restart count come again when Slurm gives its id to another."""
    for at, one in enumerate(candidates):
        if abs(one.start - theirs.start) <= SAME_RUN:
            return candidates.pop(at)
    return None


def _difference(one: RunRow | None, theirs: AccountedRun, now: float) -> str:
    if one is None:
        return "not in the journal" if now - theirs.start > LAG else ""
    if one.gpus != theirs.gpus:
        return "GPUs differ"
    if bool(one.end) != bool(theirs.end):
        return "only one of them has ended" if now - (one.end or theirs.end) > LAG else ""
    length, other = one.end - one.start, theirs.end - theirs.start
    return "times differ" if one.end and abs(length - other) > TOLERANCE else ""


def _told(run: RunRow | AccountedRun) -> tuple[float, float, int]:
    return run.start, run.end, run.gpus
