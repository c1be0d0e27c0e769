"""What a cycle with reporting jobs costs more than one without. One core; milliseconds of processor time; prints JSON.

    python bench/estimates.py [--jobs 10000] [--elastic 0.5] [--cycles 6] [--folder /dev/shm]

cycle     ledger, observe, decide and publish
read      the files of the jobs whose report is due are read, and claims stored, as before there were estimates
measure   losses, seconds a step and ends of these jobs; the journal's one transaction with its sync, and the sizes of elastic jobs
columns   of predictions, in observe
learn     after the cycle, in the time before the next one: ends of jobs with news; models and curves of `learned` jobs
memory    MB that the estimates of all jobs take

All jobs run and report; `--elastic` of them are elastic and have run with three sizes. Cycles are 30 s apart.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from status import NOW, Centre

from tiresias.protocol import control, progress
from tiresias.protocol.convergence import Convergence
from tiresias.protocol.progress import Progress
from tiresias.slurm_plugin.cycle.estimate_stage import SHARE
from tiresias.slurm_plugin.state.journal_rows import RunRow

PERIOD_S = 30.0
WARM_UP = 4  # cycles: each job was read twice, so that its steps are timed


def milliseconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return 1e3 * (time.process_time() - began)


class Reporting:
    """A centre whose jobs report."""

    def __init__(self, folder: Path, jobs: int, elastic: float) -> None:
        self.centre, self.now, self.count = Centre(folder, jobs, jobs), float(NOW), 0
        self.elastic = int(elastic * jobs)
        self.managed = [replace(job, uid=os.getuid()) for job in self.centre.ledger.apply(self.centre.slurm)]
        for job in self.managed:
            control.make(control.job_folder(folder, job.uid, job.id), "")
            if int(job.id) <= self.elastic:
                self._make_elastic(job.id, job.gpus)
        self.folder = folder

    def _make_elastic(self, job_id: str, gpus: int) -> None:
        row, runs = self.centre.ledger.jobs[job_id], self.centre.ledger.runs
        row.elastic, row.min_gpus, row.max_gpus = "1-32", 1, 32
        for at, size in enumerate((1, 2, 4)):
            run = RunRow(
                row.key,
                at - 3,
                row.submit,
                row.submit + 1,
                size,
                "n:2,m:2" if size == 4 else "n:1",
                timed=0.1 + 1.0 / size,
            )
            runs[row.key] = {at - 3: run, **runs[row.key]}
        runs[row.key] = dict(sorted(runs[row.key].items()))

    def report(self) -> None:
        """Every program writes its newest report, outside of what is measured."""
        self.count, self.now = self.count + 1, self.now + PERIOD_S
        step = 60 * self.count
        for job in self.managed:
            known = int(job.id) % 2
            report = Progress(
                0,
                step,
                100_000 if known else -1,
                5.0 / (1 + step / 1000),
                64 * step,
                None if known else Convergence(0.1),
            )
            progress.write(control.job_folder(self.folder, job.uid, job.id), report)

    def read(self) -> None:
        observer, ledger = self.centre.observer, self.centre.ledger
        self.news = [
            (job, row, found)
            for job in self.managed
            if (found := observer.progress.follow(job, row := ledger.jobs[job.id], ledger.runs_of(row), self.now))
        ]

    def measure(self) -> None:
        observer = self.centre.observer
        for job, row, found in self.news:
            observer.measured.take(row, job.restarts, found)
            observer.estimates.take(row, job.restarts, found.pace, self.now)
        for job in self.managed:
            if (row := self.centre.ledger.jobs[job.id]).elastic:
                observer.estimates.meet(job, row, 8)
        observer.measured.write(self.now)

    def columns(self) -> None:
        sizes = [self.centre.observer.estimates.sizes.get(job.id) for job in self.managed]
        self.made = (
            tuple(one and one.seconds for one in sizes),
            np.array([bool(one and one.uncertain) for one in sizes]),
        )

    def learn(self, seconds: float) -> int:
        estimates = self.centre.observer.estimates
        before = len(estimates._due)
        estimates.learn(seconds, self.now)
        return before - len(estimates._due)


def measured(site: Reporting, cycles: int) -> dict[str, Any]:
    found: dict[str, list[float]] = {name: [] for name in ("cycle", "read", "measure", "columns", "learn", "learned")}
    for _ in range(cycles):
        site.report()
        found["read"].append(milliseconds(site.read))
        found["measure"].append(milliseconds(site.measure))
        found["cycle"].append(milliseconds(site.centre.cycle))
        found["columns"].append(milliseconds(site.columns))
        began = time.process_time()
        found["learned"].append(site.learn(SHARE * PERIOD_S))
        found["learn"].append(1e3 * (time.process_time() - began))
    return {name: round(statistics.mean(values), 1) for name, values in found.items()}


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--elastic", type=float, default=0.5)
    parser.add_argument("--cycles", type=int, default=6)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-estimates-", dir=args.folder) as folder:
        site = Reporting(Path(folder), args.jobs, args.elastic)
        before = megabytes()
        measured(site, WARM_UP)
        found = measured(site, args.cycles)
        found["more_percent"] = round(100 * (found["measure"] + found["columns"]) / (found["cycle"] + found["read"]), 1)
        found |= {"memory_mb": round(megabytes() - before)}
    print(json.dumps({"machine": platform.machine(), "jobs": args.jobs, "unit": "ms", **found}, indent=1))


if __name__ == "__main__":
    main()
