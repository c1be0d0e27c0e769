"""Which jobs are silent: no message and no update for so long that their programs must have ended without `EndJob`. Pure.

A preempted job is one of them: its tensors are in its checkpoint, and it registers anew when it runs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class JobActivity:
    """The last activity of each job. A new manager counts from its own start.

    Args:
        limit_s: Silence after which a job is removed, seconds.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._last: dict[str, float] = {}
        self._updates: dict[str, int] = {}

    def active(self, job: str, now_s: float) -> None:
        """Note a message of a job."""
        self._last[job] = now_s

    def silent(self, updates: Mapping[str, int], now_s: float) -> list[str]:
        """Return the silent jobs.

        Args:
            updates: Updates of each registered job's tensors so far, as its aggregators report them; another number is activity.
            now_s: Seconds of a steady clock.
        """
        self._forget(self._last.keys() - updates.keys())
        for job, count in updates.items():
            if job not in self._last or self._updates.get(job) != count:
                self._last[job] = now_s
        self._updates = dict(updates)
        return [job for job in updates if now_s - self._last[job] > self._limit_s]

    def _forget(self, jobs: Iterable[str]) -> None:
        for job in jobs:
            del self._last[job]
