"""Floods of jobs under a running controller: an array of 5,000 tasks, and 10,000 submissions in a row.

    python tests/chaos/flood.py [--jobs 10000] [--tasks 5000] [--json FILE]        (make test-chaos has a small one)

Four processes of two users submit through Slurm's own library: sbatch starts a program for each job, and its rate is reported
separately (sbatch_a_second). Jobs of a second each run all the while, on 16 GPUs. Reported of each flood:

a_second         submissions that slurmctld took
known_after      seconds from the last submission until the controller shows each job that Slurm has in its queue
successor        seconds from the end of a job to the start of the one that takes its GPU, in slurmctld's log, meanwhile
longest_cycle    seconds
lost             accepted, and not in Slurm's completion log when their owners have cancelled all that was left
unseen           accepted, and not in the controller's journal
left, shown      what is in the queue, and in the controller's view, when all is cancelled
held             at the end, when the controller has stopped

Exit code 1 unless the last five are 0.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # started by its path: once more, as a module of `tests`
    os.execv(sys.executable, [sys.executable, "-m", "tests.chaos.flood", *sys.argv[1:]])

import argparse
import json
import re
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.chaos.run import CONFIG
from tests.chaos.scene import USERS, Scene
from tiresias.sandbox import completion_log

WAIT_LIMIT_S = 300.0  # for each condition
POLL_INTERVAL_S = 1.0  # the controller's answer about 10,000 jobs is megabytes
PROCESSES = 2  # of each user
BY_SBATCH = 40
GPUS = 16
SUBMIT = """
import os, sys, time
import pyslurm
pyslurm.slurm_init()
began, taken, refused = time.time(), [], ""
script = "#!/bin/sh\\nsleep 1\\n"
for number in range(int(sys.argv[1])):
    try:
        job = pyslurm.JobSubmitDescription(name="flood", script=script, ntasks=1, gpus=1, working_directory="/tmp",
                                           standard_output="/dev/null", environment={"PATH": os.environ["PATH"]})
        taken.append(job.submit())
    except pyslurm.RPCError as error:
        refused = str(error)
print(time.time() - began, ",".join(map(str, taken)), refused)
"""


class Flood:
    def __init__(self) -> None:
        self.scene = Scene(f"flood-{os.getpid()}", {"seed": 1}, 60_000, "forky", **CONFIG)
        self.accepted: set[str] = set()
        self.longest = 0.0

    # -- submissions ----------------------------------------------------------------------------------------------------

    def submissions(self, count: int) -> dict[str, Any]:
        """By all users at once."""
        running = [self._submitter(user, count // (PROCESSES * len(USERS))) for user in USERS * PROCESSES]
        while any(process.poll() is None for process in running):
            self._poll()
        answers = [process.communicate() for process in running]
        if problems := [err.strip().splitlines()[-1] for out, err in answers if not out.strip()]:
            raise SystemExit(f"flood: {problems[0]}")
        taken = [out.rstrip("\n").split(" ", 2) for out, _ in answers]
        accepted = {number for words in taken for number in words[1].split(",") if number}
        self.accepted |= accepted
        seconds = max(float(words[0]) for words in taken)
        return {
            "accepted": len(accepted),
            "seconds": round(seconds, 1),
            "a_second": round(len(accepted) / seconds, 1),
            "refused": next((words[2] for words in taken if words[2]), ""),
        }

    def _submitter(self, user: str, count: int) -> subprocess.Popen[Any]:
        pipe, words = subprocess.PIPE, ["python3", "-c", SUBMIT, str(count)]
        return self.scene.cluster.popen(words, user=user, stdout=pipe, stderr=pipe, text=True)

    def array(self, tasks: int) -> dict[str, Any]:
        """Its tasks are records of their own, with numbers of their own, once they start."""
        words = ["sbatch", *self.scene.options("array", 1), f"--array=0-{tasks - 1}", "--wrap", "sleep 1"]
        number = self.scene.cluster.run(words, user=USERS[0]).stdout.strip()
        self.accepted |= {f"{number}_{task}" for task in range(tasks)}
        return {"tasks": tasks}

    def sbatch_a_second(self) -> float:
        """One user in a loop."""
        sbatch = " ".join(["sbatch", *self.scene.options("sbatch", 1), "--wrap", "'sleep 1'"])
        began = time.time()
        loop = f"for each in $(seq {BY_SBATCH}); do {sbatch}; done"
        self.accepted |= set(
            self.scene.cluster.run(["sh", "-c", loop], user=USERS[0], timeout=WAIT_LIMIT_S).stdout.split()
        )
        return round(BY_SBATCH / (time.time() - began), 1)

    # -- the controller's view --------------------------------------------------------------------------------------------

    def known_after(self) -> float | None:
        """None: not within WAIT_LIMIT_S."""
        began = time.time()
        while time.time() < began + WAIT_LIMIT_S:
            waiting = {job["id"] for job in self.scene.queue()}
            if waiting <= {job["id"] for job in self._poll().get("jobs", ())}:
                return round(time.time() - began, 1)
        return None

    def watch(self, seconds: float) -> None:
        end = time.time() + seconds
        while time.time() < end:
            self._poll()

    def _poll(self) -> dict[str, Any]:
        status: dict[str, Any] = self.scene.status()
        self.longest = max(self.longest, status.get("cycle", {}).get("seconds", 0.0))
        time.sleep(POLL_INTERVAL_S)
        return status

    def cancel_all(self) -> dict[str, Any]:
        """What is left in the queue and in the controller's view when it had its time."""
        began = time.time()
        while time.time() < began + WAIT_LIMIT_S:
            for user in USERS:
                self.scene.cluster.run(["scancel", "--user", user], check=False, timeout=120)
            left, shown = len(self.scene.queue()), len(self._poll().get("jobs", [1]))
            if not left and not shown:
                break
        return {"left": left, "shown": shown, "longest_cycle": round(self.longest, 2)}

    def one(self, how: Any, count: int, seconds: float) -> dict[str, Any]:
        """Submitted, watched, cancelled."""
        self.longest, began = 0.0, time.time()
        found: dict[str, Any] = how(count)
        found["known_after"] = self.known_after()
        self.watch(seconds)
        found["successor"] = successors(self.scene.cluster.log / "slurmctld.log", began, time.time())
        return found | self.cancel_all()

    def books(self) -> dict[str, int]:
        """When the controller has stopped."""
        self.scene.stop()
        held = len(self.scene.queue())
        lost = missing(self.accepted, self.scene.cluster.log / "jobcomp.log")
        return {"lost": len(lost), "unseen": len(self.accepted - set(journaled(self.scene.journal()))), "held": held}


def missing(accepted: set[str], log: Path) -> set[str]:
    """Which of these jobs the completion log does not have. Tasks that were cancelled before they were split off are in it as one
    record, by the number of their array."""
    ended = set[str]()
    for fields in completion_log.records(log):
        array, task = fields.get("ArrayJobId", "0"), fields.get("ArrayTaskId", "")
        ended.add(f"{array}_{task}" if array not in ("", "0") else fields["JobId"])
    return {job for job in accepted if not {job, job.partition("_")[0]} & ended}


def journaled(journal: Path) -> list[str]:
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as db:
        return [row[0] for row in db.execute("select distinct id from job")]


def successors(log: Path, since: float, until: float) -> dict[str, Any]:
    """While all GPUs are taken and each job has one, the start that takes the place of an end comes so many starts after it."""
    ends, starts = list[float](), list[float]()
    for line in log.read_text(errors="replace").splitlines():
        if found := re.match(r"\[(\S+)\] (_job_complete: JobId=\S+ done|sched: Allocate JobId=)", line):
            moment = datetime.fromisoformat(found[1]).timestamp()
            if since <= moment <= until:
                (ends if found[2].endswith("done") else starts).append(moment)
    gaps = [start - end for end, start in zip(sorted(ends), sorted(starts)[GPUS:], strict=False)]
    return (
        {"count": len(gaps), "median": round(statistics.median(gaps), 2), "p99": percentile(gaps, 99)} if gaps else {}
    )


def percentile(values: Sequence[float], percent: int) -> float:
    return round(sorted(values)[len(values) * percent // 100], 2)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, default=5_000)
    parser.add_argument("--seconds", type=float, default=30.0, help="of watching each flood (default: %(default)g)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args(argv)
    flood = Flood()
    try:
        flood.scene.begin_lives()
        found: dict[str, Any] = {"sbatch_a_second": flood.sbatch_a_second()}
        found["array"] = flood.one(flood.array, args.tasks, args.seconds)
        found["submissions"] = flood.one(flood.submissions, args.jobs, args.seconds)
        found |= flood.books()
    finally:
        flood.scene.close()
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    floods = [found["array"], found["submissions"]]
    whole = all(one["known_after"] is not None and not one["left"] and not one["shown"] for one in floods)
    return 0 if whole and not (found["lost"] or found["unseen"] or found["held"]) else 1


if __name__ == "__main__":
    sys.exit(main())
