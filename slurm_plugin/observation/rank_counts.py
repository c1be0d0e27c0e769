"""Whether the program of an elastic job uses the size of its run: as many ranks must register as the size has tasks or GPUs.

A program with a fixed number of ranks (`srun -n 2`, `torchrun --nproc-per-node=2`) wastes the GPUs of a larger size, or overloads
those of a smaller one. The ranks are counted once rank 0 has made its first step in the run: those of one job start together. A run
without a first step is judged by the time in which its ranks should have registered, if an earlier run of the job made steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tiresias.protocol import rank_files
from tiresias.protocol.control import JobReport
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.state import job_reasons, own_size
from tiresias.slurm_plugin.state.job_reasons import Rigid
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow

SETTLE_S = 60.0  # after the first step, at most: until the files of all nodes are visible
LATER = 3.0  # times the longest start of earlier runs, at least, until a run without a first step is judged


class RankCounts:
    """Judges each run of an elastic job once.

    Args:
        root: The control root.
        timeout: Seconds from the start of a run within which its ranks must register.
    """

    def __init__(self, root: Path, timeout: float) -> None:
        self._root, self._timeout = root, timeout
        self._used: dict[str, int] = {}  # restart counts of runs that use their size, by job id

    def begin_cycle(self, alive: Mapping[str, object]) -> None:
        """Forget ended jobs."""
        self._used = {job_id: restart for job_id, restart in self._used.items() if job_id in alive}

    def why_rigid(self, job: SlurmJob, row: JobRow, report: JobReport, runs: Sequence[RunRow], now: float) -> str:
        """Return the stored reason (`Rigid`) for which a running job must keep the size that it requests; "" for none.

        Args:
            job: Its record.
            row: Its row.
            report: Of its present run.
            runs: All its runs.
            now: Epoch seconds.
        """
        if own_size.sizes(row) is None or report.alone or self._used.get(job.id) == job.restarts:
            return ""
        if now < self._judged_at(job, report, runs):
            return ""
        found, expected = rank_files.registered(self._root, job.uid, job.id), own_size.ranks(job)
        if found in expected:
            self._note_used(job, report)
            return ""
        if not found and report.restore is not None:  # they unregister when the training ends
            return ""
        return job_reasons.stored(Rigid.OTHER_RANKS, found, job.gpus, max(expected))

    def _judged_at(self, job: SlurmJob, report: JobReport, runs: Sequence[RunRow]) -> float:
        """Return the moment from which on the ranks of the run count; inf: never."""
        if report.restore is not None:
            return job.start_time + report.restore + min(SETTLE_S, self._timeout)
        starts = [run.restore for run in runs if run.restore is not None]
        return job.start_time + max(self._timeout, LATER * max(starts)) if starts else float("inf")

    def _note_used(self, job: SlurmJob, report: JobReport) -> None:
        if report.restore is not None:
            self._used[job.id] = job.restarts
