"""The hand-over campaign: preemptions on nodes where other jobs, which the controller does not manage, wait for every free GPU.

    python tests/chaos/foreign.py [--preemptions 200] [--seed N] [--minutes 30] [--backend commands] [--suite forky] [--json FILE]

Eight trainings of two GPUs fill four nodes. A stream of foreign jobs of four kinds (another partition, --exclusive, several
partitions, heterogeneous), of random sizes, time limits and priorities, waits for GPUs, and a few urgent jobs arrive, for which
trainings are preempted. What is reported: how many preempted GPUs reached the job that they were preempted for, the victims of
which it did not start, and the seconds from the last victim's save to the first line of that job's script.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # started by its path: once more, as a module of `tests`
    os.execv(sys.executable, [sys.executable, "-m", "tests.chaos.foreign", *sys.argv[1:]])

import argparse
import contextlib
import json
import random
import shutil
import sqlite3
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.slurm_plugin.controller.centre import Centre
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec

REACH_SECONDS = 15  # from the end of a victim's run to the start of its beneficiary's, at most
START_SECONDS = 60.0  # for which a round waits for its urgent jobs
FIND = """select intent.id, intent.beneficiary, run.gpus, run.nodes, run.end from intent
join run on run.key = intent.key and run.restart = intent.restart
where kind in ('preempt', 'resize') and beneficiary != '' and outcome like 'parked%' order by seq"""
# A job that ended before the controller saw it run ran where its last start had pinned it.
RUNS = """select job.id, run.start, case when run.nodes != '' then run.nodes else (
  select group_concat(json_extract(one.value, '$[0]'))
  from json_each((select nodes from intent where intent.key = job.key and kind = 'start' order by seq desc limit 1)) as one
) end from run join job using (key)"""


@dataclass
class Report:
    backend: str
    suite: str
    seed: int
    seconds: float = 0.0
    urgent: int = 0
    foreign: int = 0
    started: int = 0  # urgent jobs
    preemptions: int = 0
    gpus: int = 0  # preempted
    reached: int = 0  # of them, the beneficiary
    share: float = 0.0
    without: list[str] = field(default_factory=list)  # victims of which the beneficiary did not start
    park_to_running: dict[str, float] = field(default_factory=dict)


class HandoverCampaign:
    def __init__(self, args: argparse.Namespace) -> None:
        self._args, self._dice = args, random.Random(args.seed)
        self._report = Report(args.backend, args.suite, args.seed)
        settings = {"KillWait": "5", "MinJobAge": "300"}
        name = f"foreign-{os.getpid()}"
        self._centre = Centre(Cluster.up(ClusterSpec(name=name, suite=args.suite, nodes=4, settings=settings)))
        self._parked: dict[tuple[str, int], float] = {}  # when each run had saved
        self._trainings: list[str] = []
        self._urgent: list[str] = []

    def run(self) -> Report:
        began = time.time()
        try:
            config, state = self._centre.configure(backend=self._args.backend, policy={"min_run": 0.5})
            self._journal = self._centre.root / state.lstrip("/") / "journal.sqlite"
            self._centre.start(config)
            self._trainings = [self._centre.train(gpus=2, seconds=36000.0) for _ in range(8)]
            while self._preempted() < self._args.preemptions and time.time() < began + 60 * self._args.minutes:
                self._round()
                self._report_progress()
            self._centre.wait_for_cycles(2)
            self._count()
        finally:
            self._report.seconds = round(time.time() - began, 1)
            self._centre.stop("KILL")
            self._centre.cluster.down()
        return self._report

    # -- a round --------------------------------------------------------------------------------------------------------

    def _round(self) -> None:
        """The trainings run; foreign jobs wait, more arrive; urgent jobs arrive and start, and all but the trainings end."""
        for job in self._trainings:
            self._until(lambda job=job: self._ready(job), START_SECONDS)
        foreign = [self._foreign() for _ in range(self._dice.randint(2, 5))]
        urgent = []
        for _ in range(self._dice.randint(1, 3)):
            gpus = self._dice.choice([1, 2, 2, 4, 4, 8])
            urgent.append(self._centre.submit(gpus=gpus, command="date +%s.%N; sleep 1.5", user="bob"))
            foreign += [self._foreign() for _ in range(self._dice.randint(0, 2))]
            self._until(lambda: False, self._dice.uniform(0, 1.5))
        self._until(lambda: all(self._ended(job) for job in urgent), START_SECONDS)
        self._urgent += urgent
        self._report.foreign += len(foreign)
        left = [job for job in [*foreign, *urgent] if job]
        self._centre.cluster.run(["scancel", "--quiet", *left], check=False)

    def _foreign(self) -> str:
        gpus, minutes = self._dice.choice([1, 2, 4, 4]), self._dice.choice([1, 2, 10, 600])
        kind = self._dice.choice(
            [
                ("--partition=other", f"--gpus={gpus}"),
                ("--exclusive", "--nodes=1"),
                (self._dice.choice(["--partition=gpu,other", "--partition=other,gpu"]), f"--gpus={gpus}"),
                (f"--gpus={gpus}", ":", "--ntasks=1", f"--gpus={min(gpus, 2)}"),
            ]
        )
        limits = [f"--time={minutes}"] if ":" not in kind else []
        job = str(self._centre.submit(*limits, *kind, gpus=0, command=f"sleep {self._dice.choice([1, 2, 4])}"))
        if self._dice.random() < 0.3:
            priority = self._dice.choice([1, 10**6, 4_000_000_000])
            self._centre.scontrol("update", f"JobId={job}", f"Priority={priority}", check=False)
        return job

    def _ready(self, job: str) -> bool:
        found = self._centre.published(job)
        return bool(found.get("preemptable")) and found.get("queue") == 1

    def _ended(self, job: str) -> bool:
        return self._centre.state(job) not in ("PENDING", "RUNNING", "")

    def _until(self, ready: Any, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not ready() and time.monotonic() < end:
            self._note_parked()
            time.sleep(0.1)
        return time.monotonic() < end

    def _note_parked(self) -> None:
        for job in self._trainings:
            for path in (self._centre.cluster.shared / "tiresias/control").glob(f"*/{job}/supervisor.json"):
                with contextlib.suppress(OSError, ValueError):
                    reported = json.loads(path.read_text())
                    if reported.get("state") == "parked":
                        self._parked.setdefault((job, int(reported["restart"])), path.stat().st_mtime)

    # -- what is reported -----------------------------------------------------------------------------------------------

    def _query(self, query: str) -> list[tuple[Any, ...]]:
        """Of a copy: SQLite resolves the link to the cluster's root."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("journal.sqlite", "journal.sqlite-wal"):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copy(self._journal.with_name(name), folder)
            with contextlib.closing(sqlite3.connect(Path(folder) / "journal.sqlite")) as db:
                return db.execute(query).fetchall()

    def _preempted(self) -> int:
        return len(self._query(FIND)) if self._journal.exists() else 0

    def _count(self) -> None:
        report, runs = self._report, self._query(RUNS)
        groups: dict[str, list[float]] = {}
        moves = self._query(FIND)
        for job, beneficiary, gpus, nodes, end in moves:
            mine = {one.split(":")[0] for one in nodes.split(",")}
            reached = any(
                one == beneficiary and end - 1 <= start <= end + REACH_SECONDS
                for one, start, there in runs
                if mine & {each.split(":")[0] for each in (there or "").split(",")}
            )
            report.gpus += gpus
            report.reached += gpus * reached
            if reached:
                groups.setdefault(beneficiary, []).append(end)
            else:
                report.without.append(f"{job} for {beneficiary}")
        report.preemptions, report.urgent = len(moves), len(self._urgent)
        report.started = sum(1 for job in self._urgent if any(one == job for one, _, _ in runs))
        report.share = round(report.reached / max(report.gpus, 1), 4)
        report.park_to_running = _summary(list(self._waits(groups, moves)))

    def _waits(self, groups: dict[str, list[float]], moves: list[tuple[Any, ...]]) -> Any:
        """Seconds from the last save of a group to the first line of its beneficiary's script."""
        for beneficiary in groups:
            victims = {job for job, other, *_ in moves if other == beneficiary}
            first = self._centre.output(beneficiary).split("\n", 1)[0]
            with contextlib.suppress(ValueError):
                began = float(first)
                saved = [at for (job, _), at in self._parked.items() if job in victims and began - 30 < at <= began]
                if saved:
                    yield began - max(saved)

    def _report_progress(self) -> None:
        print(
            f"{self._preempted()} preemptions, {len(self._urgent)} urgent jobs, {self._report.foreign} foreign",
            flush=True,
        )


def _summary(seconds: list[float]) -> dict[str, float]:
    found = sorted(seconds)
    if not found:
        return {"count": 0}
    return {
        "count": len(found),
        "median": round(found[len(found) // 2], 3),
        "p95": round(found[len(found) * 95 // 100], 3),
        "largest": round(found[-1], 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preemptions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--backend", choices=["pyslurm", "commands"], default="pyslurm")
    parser.add_argument("--suite", choices=["forky", "trixie", "bookworm"], default="forky")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    report = HandoverCampaign(args).run()
    text = json.dumps(asdict(report), indent=2)
    print(text)
    if args.json:
        args.json.write_text(text)
    return 0 if report.share >= 0.99 else 1


if __name__ == "__main__":
    sys.exit(main())
