"""The waits of jobs and the cost of preemptions, summed by partition and account since this controller leads. Pure.

The sums never fall, so that they may be counters of Prometheus; a controller that starts begins at zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tiresias.slurm_plugin.state.usage import Usage

# runs that began; preempted runs; seconds that jobs waited until their runs began; GPU-seconds without progress (usage.py)
COUNTED = ("runs", "preemptions", "waited", "saving", "restoring", "redone")


class Place(NamedTuple):
    """The key of a sum. partition: of a pending job perhaps several, joined with commas."""

    partition: str
    account: str


class Totals:
    """The sums of all jobs by partition and account."""

    def __init__(self) -> None:
        self._sums: dict[Place, list[float]] = defaultdict(lambda: [0.0] * len(COUNTED))
        self._counted: dict[str, list[float]] = {}  # by job, what of it is in the sums or was before them

    def skip(self, key: str, had: Usage) -> None:
        """Leave out the job's usage before this controller led."""
        self._counted[key] = _numbers(had)

    def count(self, key: str, place: Place, had: Usage) -> None:
        """Add the growth of the job's usage; a number that fell, because a job corrects itself, counts again above its maximum."""
        before, now = self._counted.get(key, [0.0] * len(COUNTED)), _numbers(had)
        sums = self._sums[place]
        for index, (old, new) in enumerate(zip(before, now, strict=True)):
            sums[index] += max(new - old, 0.0)
        self._counted[key] = [max(old, new) for old, new in zip(before, now, strict=True)]

    def forget(self, key: str) -> None:
        """Drop a job that has ended."""
        self._counted.pop(key, None)

    def published(self) -> list[dict[str, Any]]:
        """Return one row for each partition and account."""
        return [
            place._asdict() | {name: round(value, 3) for name, value in zip(COUNTED, sums, strict=True)}
            for place, sums in sorted(self._sums.items())
        ]


def by_partition(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the published rows summed over accounts."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        one = found.setdefault(
            row["partition"], {"partition": row["partition"], "account": "", **dict.fromkeys(COUNTED, 0.0)}
        )
        for name in COUNTED:
            one[name] = round(one[name] + row[name], 3)
    return list(found.values())


def _numbers(had: Usage) -> list[float]:
    """Return the counted numbers; the wait of a job counts once its first run begins."""
    waited = had.queued + had.parked if had.runs else 0.0
    return [float(had.runs), float(had.preemptions), waited, had.saving, had.restoring, had.redone]
