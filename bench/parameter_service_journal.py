"""What the manager of the parameter service takes to write its journal: python bench/parameter_service_journal.py [--jobs N]

Jobs register, declare their tensors, are profiled, their tensors migrate, --batch of them in a write, and all end. Each change is
on the disk before the next one, as in the manager; --folder names where, because the time of a sync depends on the file system.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tiresias.services.parameter_service.assignment.aggregator_clusters import AggregatorClusters
from tiresias.services.parameter_service.assignment.assignment_rules import AssignmentRules
from tiresias.services.parameter_service.manager.manager_journal import ManagerJournal
from tiresias.services.parameter_service.manager.registered_jobs import RegisteredJobs

SERVERS = 2


class JournalRun:
    """The manager's table of jobs on a journal, with the time and the writes of each kind of change."""

    def __init__(self, folder: Path, jobs: int, tensors: int, batch: int) -> None:
        self.journal = ManagerJournal(folder, 1)
        self.jobs = RegisteredJobs(self.journal, AggregatorClusters(AssignmentRules(), SERVERS * jobs))
        self.names = [f"job-{number}" for number in range(jobs)]
        self.sizes = {f"layer-{number}.weight": 4_000_000 for number in range(tensors)}
        self.seconds: dict[str, float] = {}
        self.migrations, self.batch = 0, batch

    def timed(self, what: str, work: Callable[[str], None]) -> None:
        began = time.perf_counter()
        for name in self.names:
            work(name)
        self.seconds[what] = round(time.perf_counter() - began, 3)

    def register(self, name: str) -> None:
        self.jobs.register(name, 1000, bytes(32), SERVERS, 4)

    def profile(self, name: str) -> None:
        blocks = self.jobs.masters(name)
        self.jobs.profiled(name, 1.0, dict.fromkeys(blocks, 0.2 / len(blocks)))

    def migrate(self, name: str) -> None:
        moves: dict[int, list[str]] = {}
        for block, (_, to) in self.jobs.moves_of(name).items():
            moves.setdefault(to, []).append(block)
        for to, blocks in moves.items():
            for start in range(0, len(blocks), self.batch):
                self.jobs.migrated(name, blocks[start : start + self.batch], to)
            self.migrations += len(blocks)

    def run(self) -> None:
        self.timed("register", self.register)
        self.timed("declare", lambda name: self.jobs.init(name, self.sizes) and None)
        self.timed("profile", self.profile)
        self.timed("migrate", self.migrate)
        self.timed("end", self.jobs.end)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100, help="jobs; 100")
    parser.add_argument("--tensors", type=int, default=200, help="tensors of each; 200")
    parser.add_argument("--batch", type=int, default=1, help="tensors whose migrations a round finds to have ended; 1")
    parser.add_argument("--folder", type=Path, help="where the journal is; a temporary folder")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        run = JournalRun(Path(name), args.jobs, args.tensors, args.batch)
        run.run()
        run.journal.close()
    total = round(sum(run.seconds.values()), 3)
    print(
        json.dumps({"load": load, "jobs": args.jobs, "tensors": args.tensors, "seconds": run.seconds, "total": total})
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
