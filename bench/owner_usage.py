"""How long a cycle takes to count what the owners of jobs used, on a large journal. Prints JSON.

    python bench/owner_usage.py [--jobs 100000] [--ended 500000] [--users 1000] [--repeat 5]

first    the first count of a controller: all runs that still count are read
next     a later one, once in `policy.usage_period`
columns  the columns of the snapshot, in each cycle between two counts
Milliseconds of this process on a processor. A third of the jobs run, a tenth of these for the second time; the others wait. Jobs
that ended did so in the last ten days.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from status import NOW, WAITING

from tiresias.scheduler.config import PolicyConfig
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.job_owners import JobOwners
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow
from tiresias.slurm_plugin.state.ledger import Ledger

DAY = 86400.0
POLICY = PolicyConfig(fairness="users")


def fill(journal: Journal, jobs: int, ended: int, users: int) -> None:
    random = np.random.default_rng(1)
    with journal.batch():
        for number, uid in enumerate(random.integers(2000, 2000 + users, jobs + ended).tolist()):
            over = 0.0 if number < jobs else NOW - float(random.uniform(0, 10 * DAY))
            key = f"{number}@{NOW}"
            journal.save_job(JobRow(key, str(number), uid, NOW - 11 * DAY, ended=bool(over), over=over))
            if over or number % 3 == 0:
                start = (over or NOW) - float(random.uniform(60, DAY))
                runs = [(start, over)] if number % 10 else [(start - 7200.0, start - 3600.0), (start, over)]
                for restart, (begin, end) in enumerate(runs):
                    journal.save_run(RunRow(key, restart, begin, end, 2, "", account="science"))


def milliseconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return round(1e3 * (time.process_time() - began), 1)


def measured(folder: Path, jobs: int, ended: int, users: int, repeat: int) -> dict[str, Any]:
    journal = Journal(folder)
    fill(journal, jobs, ended, users)
    config = replace(Config(), policy=POLICY)
    ledger = Ledger(journal, Scope.of(config))
    random = np.random.default_rng(2)
    uids = random.integers(2000, 2000 + users, jobs).tolist()
    shown = [replace(WAITING, id=str(number), uid=uid) for number, uid in enumerate(uids)]
    waits, owners = np.arange(jobs) % 3 > 0, JobOwners(config, ledger)
    first = milliseconds(lambda: owners.columns(shown, waits, NOW, ()))
    columns = [milliseconds(lambda: owners.columns(shown, waits, NOW + 1.0, ())) for _ in range(repeat)]
    later = [
        milliseconds(lambda moment=NOW + POLICY.usage_period * turn: owners.columns(shown, waits, moment, ()))  # type: ignore[misc]
        for turn in range(1, repeat + 1)
    ]
    median = statistics.median(columns)
    journal.close()
    return {"first_ms": first, "next_ms": round(statistics.median(later) - median, 1), "columns_ms": median}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--ended", type=int, default=500_000)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), args.jobs, args.ended, args.users, args.repeat)
    print(json.dumps({"jobs": args.jobs, "ended": args.ended, "users": args.users, **found}))


if __name__ == "__main__":
    main()
