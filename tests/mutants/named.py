"""Mutations that no test noticed once. Each campaign tries them first, and fails where one survives or its text is gone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Named:
    """The first `before` in `path` becomes `after`. tests: files that have to notice."""

    name: str
    path: str
    before: str
    after: str
    tests: tuple[str, ...]


OBSERVE, FENCE = ("tests/slurm_plugin/observation/test_observer.py",), ("tests/slurm_plugin/failover/test_fence.py",)
NAMED = (
    Named(
        "attained service counts only the newest run", "slurm_plugin/state/ledger.py",
        "return list(self.runs[row.key].values())", "return list(self.runs[row.key].values())[-1:]", OBSERVE,
    ),
    Named(
        "service arithmetic counts only the last run", "scheduler/attained_service.py",
        "for start, end, gpus in runs:", "for start, end, gpus in list(runs)[-1:]:", OBSERVE,
    ),
    Named(
        "no epoch check before an operation", "slurm_plugin/failover/fence.py",
        "        self._check()\n        try:\n            yield", "        try:\n            yield", FENCE,
    ),
    Named(
        "no note to the next leader", "slurm_plugin/failover/fence.py",
        'self._leadership.leave_note(f"{operation}-{job_id}")', "pass", FENCE,
    ),
    Named(
        "a run parks for a checkpoint whose hashes were not verified", "wrappers/newest_checkpoint.py",
        "store.verify(step)\n", "pass\n", ("tests/wrappers/test_newest_checkpoint.py",),
    ),
)  # fmt: skip
