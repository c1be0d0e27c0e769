"""What the state database takes: its size, and the time of what reads or changes all of it. Prints JSON.

    python bench/state.py [--jobs 100000] [--runs 3] [--repeat 3]

bytes      of the file, with that many ended jobs of that many runs each and the steps and decisions that they leave
per_job    bytes a job
open       seconds: open, check every page, read what lives; what a start of the controller takes
past       seconds: all that policies learn from
audit      seconds: all runs against as many of accounting
read       seconds: sacct's rows of all runs, made jobs of
rebuild    seconds: a new database with all of them
history    seconds: the longest page of all that `tiresias history` asks the controller for, JSON included, and all pages
prune      seconds: the longest step of forgetting them all, and how many steps it took
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from tiresias.slurm_plugin.accounting.accounted_jobs import FIELDS, RESTARTS, AccountedJob, AccountedRun, rows
from tiresias.slurm_plugin.accounting.accounted_jobs import jobs as jobs_of
from tiresias.slurm_plugin.accounting.audit import audit
from tiresias.slurm_plugin.accounting.rebuild import rebuild
from tiresias.slurm_plugin.backends.interface import SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import Config, Paths
from tiresias.slurm_plugin.sockets.history_pages import Past
from tiresias.slurm_plugin.sockets.privacy import OPEN
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal import FILE, Journal
from tiresias.slurm_plugin.state.journal_rows import Decision, JobRow, RunRow
from tiresias.slurm_plugin.state.ledger import Ledger

NOW = 1_800_000_000.0
GAP = 10.0  # seconds between two jobs
SCOPE = Scope(frozenset({"gpu"}))


def fill(journal: Journal, jobs: int, runs: int) -> list[AccountedJob]:
    """As the controller leaves them: each run was started, and all but the last were ended by a preemption."""
    accounted = []
    with journal.batch():
        for number in range(jobs):
            submit = NOW - GAP * (jobs - number)
            row = JobRow(
                f"{number}@{submit:.0f}",
                str(number),
                1001 + number % 50,
                submit,
                ended=True,
                over=submit + 1000.0 * runs,
            )
            row.kind = f"{number % 1000:016x}.json"
            journal.save_job(row)
            accounted_runs = [_run(journal, row, restart) for restart in range(runs)]
            accounted.append(AccountedJob(row.id, row.uid, submit, tuple(accounted_runs), runs - 1, 0.0, True))
    return accounted


def _run(journal: Journal, row: JobRow, restart: int) -> AccountedRun:
    start = row.submit + 1000.0 * restart
    nodes = "gpu0001:8,gpu0002:8"
    journal.save_run(RunRow(row.key, restart, start, start + 900, 16, nodes, 12.5, 0.25, 1.5, 3, 0.125))
    for kind, words in (
        (IntentKind.START, f"running: on {nodes}"),
        (IntentKind.PREEMPT, "parked: 1.50 s after the decision"),
    ):
        intent = Intent(
            row.key, row.id, restart, kind, IntentStep.CONFIRM, (("gpu0001", 8), ("gpu0002", 8)), "123", start, start
        )
        journal.begin(intent)
        journal.finish(intent, words)
    journal.record([Decision(start, row.id, kind, f"on {nodes}") for kind in ("start", "running", "preempt", "parked")])
    return AccountedRun(restart, start, start + 900, 16, ("gpu0001", "gpu0002"))


def fastest(repeat: int, call: Callable[[], object]) -> float:
    times = []
    for _ in range(repeat):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return round(min(times), 3)


def measure(folder: Path, jobs: int, runs: int, repeat: int) -> dict[str, Any]:
    with closing(Journal(folder)) as journal:
        accounted = fill(journal, jobs, runs)
    size = (folder / FILE).stat().st_size

    def start() -> None:
        with closing(Journal(folder)) as journal:
            Ledger(journal, SCOPE)

    found: dict[str, Any] = {"bytes": size, "per_job": round(size / jobs), "open": fastest(repeat, start)}
    with closing(Journal(folder)) as journal:
        found["past"] = fastest(repeat, journal.past)
        found["audit"] = fastest(repeat, lambda: audit(journal.runs_since(0.0), accounted, 0.0, NOW))
        found["history"] = pages(journal)
        found["prune"] = prune(journal)
    lines = ["|".join([*FIELDS, RESTARTS]), *(line for job in accounted for line in sacct_lines(job))]
    found["read"] = fastest(repeat, lambda: list(jobs_of(rows(lines, "bench"), SCOPE)))
    config = Config(paths=Paths(state=folder / "new"), partitions=("gpu",))
    config.paths.state.mkdir()
    found["rebuild"] = fastest(1, lambda: rebuild(config, accounted, SlurmSnapshot(NOW, (), ())))
    return found


def sacct_lines(job: AccountedJob) -> list[str]:
    """Return the job as sacct prints it."""
    about, tres = (
        f"{job.id}|{job.uid}|alice|science|gpu||{job.submit:.0f}",
        "billing=16,cpu=64,gres/gpu=16,mem=512G,node=2",
    )
    return [f"{about}|{run.start:.0f}|{run.end:.0f}|REQUEUED|{tres}|gpu[0001-0002]|{run.restart}" for run in job.runs]


def pages(journal: Journal) -> dict[str, float]:
    past, place, took = Past(journal.path, OPEN), None, []
    while place is not None or not took:
        began = time.process_time()
        page = past.answer({"op": "history", "after": place}, 0)
        json.dumps(page)
        took.append(time.process_time() - began)
        place = page["next"]
    return {"longest": round(max(took), 4), "all": round(sum(took), 3), "pages": len(took)}


def prune(journal: Journal) -> dict[str, float]:
    steps = []
    while True:
        began = time.process_time()
        if not journal.prune(NOW + 1e9):
            return {"longest": round(max(steps), 3), "steps": len(steps)}
        steps.append(time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3, help="of each job")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), args.jobs, args.runs, args.repeat)
    machine = f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}"
    print(json.dumps({"benchmark": "state", "jobs": args.jobs, "runs": args.runs, **found, "machine": machine}))


if __name__ == "__main__":
    main()
