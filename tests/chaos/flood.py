"""More jobs at once than anybody wants, under a running controller: 10,000 submissions as fast as they go, an array of 5,000 tasks.

    python tests/chaos/flood.py [--jobs 10000] [--tasks 5000] [--json FILE]

Tells how fast Slurm itself takes them (one process per user, through pyslurm: sbatch starts a program for each), and what the
controller makes of them: the seconds of its longest cycle, and that jobs go on being started meanwhile. Then their owners cancel
all of them; what must hold is that none stays, that none is held, and that the controller forgets them. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from run import CONFIG
from scene import USERS, Scene

PATIENCE = 300.0  # seconds for each thing that is waited for
SUBMIT = """
import os, sys, time
import pyslurm
pyslurm.slurm_init()
count, began, taken, refused = int(sys.argv[1]), time.time(), 0, ""
script = "#!/bin/sh\\nsleep 1\\n"
for number in range(count):
    try:
        job = pyslurm.JobSubmitDescription(name="flood", script=script, ntasks=1, gpus=1, working_directory="/tmp",
                                           standard_output="/dev/null", environment={"PATH": os.environ["PATH"]})
        job.submit()
        taken += 1
    except pyslurm.RPCError as error:
        refused = str(error)
print(taken, time.time() - began, refused)
"""


class Flood:
    def __init__(self) -> None:
        self.scene = Scene(f"flood-{os.getpid()}", {"seed": 1}, 60_000, **CONFIG)
        self.longest = 0.0

    def submissions(self, count: int) -> dict[str, Any]:
        """By all users at once."""
        share = count // len(USERS)
        running = [
            self.scene.cluster.popen(
                ["python3", "-c", SUBMIT, str(share)],
                user=user,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for user in USERS
        ]
        while any(process.poll() is None for process in running):
            self._look()
        answers = [process.communicate() for process in running]
        problems = [err.strip().splitlines()[-1] for out, err in answers if not out.strip()]
        if problems:
            raise SystemExit(f"flood: {problems[0]}")
        taken = [out.split(maxsplit=2) for out, _ in answers]
        return {
            "accepted": sum(int(words[0]) for words in taken),
            "seconds": round(max(float(words[1]) for words in taken), 1),
            "refused": next((words[2].strip() for words in taken if len(words) > 2), ""),
        }

    def array(self, tasks: int) -> str:
        words = ["sbatch", *self.scene.options("array", 1), f"--array=0-{tasks - 1}", "--wrap", "sleep 1"]
        return str(self.scene.cluster.run(words, user="alice").stdout.strip())

    def starts_some(self) -> int:
        """How many jobs were started in ten seconds."""
        before = self._started()
        end = time.time() + 10
        while time.time() < end:
            self._look()
        return self._started() - before

    def _started(self) -> int:
        return sum(": running: " in line for line in self.scene.log())

    def _look(self) -> None:
        status = self.scene.status()
        self.longest = max(self.longest, status.get("cycle", {}).get("seconds", 0.0))
        time.sleep(0.2)

    def cancel_all(self) -> dict[str, Any]:
        """What is left in the queue and in the controller's view when it had its time."""
        began = time.time()
        while time.time() < began + PATIENCE:
            for user in USERS:
                self.scene.cluster.run(["scancel", "--user", user], check=False, timeout=120)
            self._look()
            left, known = len(self.scene.queue()), len(self.scene.status().get("jobs", [1]))
            if not left and not known:
                break
        return {"left": left, "still_known": known, "seconds": round(time.time() - began, 1)}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, default=5_000)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args(argv)
    flood = Flood()
    try:
        flood.scene.begin_lives()
        found: dict[str, Any] = {"array": {"id": flood.array(args.tasks), "tasks": args.tasks}}
        found["array"] |= {"started_in_10_s": flood.starts_some(), "longest_cycle": flood.longest}
        found["array"] |= flood.cancel_all()
        flood.longest = 0.0
        found["submissions"] = flood.submissions(args.jobs)
        found["submissions"] |= {"started_in_10_s": flood.starts_some(), "longest_cycle": flood.longest}
        found["submissions"] |= flood.cancel_all()
        flood.scene.stop()
        found["held_at_the_end"] = len(flood.scene.queue())
    finally:
        flood.scene.close()
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    bad = found["held_at_the_end"] or any(
        found[name]["left"] or found[name]["still_known"] for name in ("array", "submissions")
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
