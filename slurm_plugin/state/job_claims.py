"""What the journal stores of a job's claims of remaining work (scheduler/estimates/claims.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tiresias.scheduler.estimates.claims import Claim, Trust
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow


def worked(runs: Sequence[RunRow], now: float) -> float:
    """Return the seconds of work in all runs of a job up to `now`: run time without start-up and restore, where measured."""
    return sum(max((run.end or now) - run.start - (run.restore or 0.0), 0.0) for run in runs)


def claim_of(row: JobRow) -> Claim | None:
    """Return the stored claims; None: the job never claimed anything."""
    found = (row.claim_at, row.claim_left, row.earliest_at, row.earliest_left)
    return None if None in found else Claim(*found)


def add_claim(row: JobRow, at: float, left: float) -> None:
    """Store a newer claim in the row. The next write of the row takes it to the disk."""
    known = claim_of(row)
    row.claim_at, row.claim_left, row.earliest_at, row.earliest_left = (
        known.then(at, left) if known else Claim.first(at, left)
    )


def timed_before(runs: Sequence[RunRow], restart: int) -> RunRow | None:
    """Return the newest timed run before the one with that restart count; None: there is none."""
    return next((one for one in reversed(runs) if one.restart < restart and one.timed is not None), None)


def have_other_sizes(one: RunRow, other: RunRow) -> bool:
    """Return whether two runs have different numbers of GPUs or of parameter servers."""
    return (one.gpus, one.servers) != (other.gpus, other.servers)


def rescale(row: JobRow, runs: Sequence[RunRow], restart: int, pace: float, now: float) -> None:
    """Adapt the claims of a job whose size has changed.

    Args:
        row: Its row.
        runs: All its runs.
        restart: Slurm's restart count of the present one.
        pace: Its seconds a step, just timed.
        now: Epoch seconds.
    """
    run = next((one for one in runs if one.restart == restart), None)
    before, known = timed_before(runs, restart), claim_of(row)
    if known and run and run.timed is None and before and before.timed and have_other_sizes(before, run):
        earlier = worked([one for one in runs if one.restart < restart], now)
        changed = known.rescaled(earlier, pace / before.timed)
        row.claim_at, row.claim_left, row.earliest_at, row.earliest_left = changed


class Expected(NamedTuple):
    """What the claims of a job are worth now.

    Attributes:
        remaining: Expected seconds of work left.
        weight: Weight of that, 0 to 1; 0 where the job worked past its claims.
    """

    remaining: float
    weight: float


def expected(row: JobRow, runs: Sequence[RunRow], now: float, trust: Trust) -> Expected | None:
    """Return what a job's claims are worth, None without any. trust: in its owner's claims."""
    found = claim_of(row)
    if found is None:
        return None
    claim, done = found.stretched(trust.stretch), worked(runs, now)
    return Expected(float(claim.remaining(done)), trust.weight if done < claim.trusted_until else 0.0)


def learned(trust: Trust, row: JobRow, runs: Sequence[RunRow], end: float) -> Trust:
    """Return the trust in an owner's claims after one of the owner's jobs has ended."""
    claim = claim_of(row)
    if claim is None:
        return trust
    return trust.learned(float(claim.earliest_left), worked(runs, end) - float(claim.earliest_at))
