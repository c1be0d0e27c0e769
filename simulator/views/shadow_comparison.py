"""What a controller in mode shadow would have done otherwise than Slurm: words, a table and JSON. Pure: results in, text out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tiresias.scheduler.model import Floats
from tiresias.simulator.formats.shadow_journal import TOTALS, ShadowRecord

HEADER = ["runs", "GPUs", "hours", "median", "95th"]
CAVEAT = (
    "Each decision started from what Slurm had done so far. These are therefore single steps and no schedule: after the first "
    "step, others would have followed. The replays above show the effect of a whole schedule."
)


def words(seen: ShadowRecord) -> Iterator[str]:
    """Yield the results, a sentence a line."""
    hours, share = seen.seconds / 3600, seen.agreed / seen.seconds if seen.seconds else 1.0
    yield f"ShadowRecord for {hours:,.1f} h: for {share:.1%} of it Slurm ran what Tiresias would have run."
    of_all = f" ({seen.idle / seen.gpu_seconds:.1%} of all)" if seen.gpu_seconds else ""
    yield f"{seen.idle / 3600:,.1f} GPU-hours{of_all} were idle though jobs waited that it would have started on them."
    if seen.busy:
        used = f"{seen.movable / seen.busy:.1%} of the {seen.busy / 3600:,.1f} GPU-hours used"
        yield f"{used} were of jobs that can save: no others are preempted."
    yield f"{seen.taken / 3600:,.1f} GPU-hours went to jobs that it would have preempted for others."
    yield CAVEAT


def rows(seen: ShadowRecord) -> Iterator[tuple[str, list[str]]]:
    """Yield for each kind: runs, their GPUs, hours, and seconds of a run."""
    for name, seconds in _kinds(seen).items():
        chosen = seconds > 0
        cells = [f"{np.sum(chosen):,}", f"{seen.run_gpus[chosen].sum():,}", f"{np.nansum(seconds) / 3600:,.1f}"]
        yield name, [*cells, *(f"{each:,.0f} s" for each in _spread(seconds[chosen]))]


def as_json(seen: ShadowRecord) -> dict[str, object]:
    """Return the JSON document."""
    totals = {name: getattr(seen, name) for name in TOTALS}
    return totals | {
        key: {"runs": int(np.sum(seconds > 0)), "seconds": float(np.nansum(seconds)), "median": median, "p95": p95}
        for key, seconds in (("sooner", seen.won), ("preempted", seen.lost))
        for median, p95 in [_spread(seconds[seconds > 0])]
    }


def _kinds(seen: ShadowRecord) -> dict[str, Floats]:
    return {"would have started sooner": seen.won, "would have been preempted": seen.lost}


def _spread(seconds: Floats) -> list[float]:
    """Return the median and the 95th percentile."""
    return [float(each) for each in np.percentile(seconds, (50, 95))] if len(seconds) else [0.0, 0.0]
