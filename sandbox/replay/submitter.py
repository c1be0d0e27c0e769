"""Submits a replay's jobs at their times, inside the cluster and as one of its users: one process for all jobs.

    python3 -m tiresias.sandbox.replay.submitter PLAN.jsonl LOG.jsonl

A line of PLAN: {"job": "7", "at": epoch seconds, "name": the job's own name, "command": ["sbatch", ...]}, in order of time.
A line of LOG for each: {"job": "7", "time": epoch seconds before the submission, "id": "123", "error": ""}.

A failed submission is repeated, as a user would do during an outage of slurmctld, but only after a check that it was not accepted:
sbatch gets no answer if the connection breaks after the request.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tiresias.wrappers import tsbatch

RETRIES = 10
RETRY_DELAY_S = 1.0


def main(argv: list[str]) -> int:
    """Submit the jobs of a plan and return the exit code."""
    plan, log = Path(argv[0]), Path(argv[1])
    with log.open("a", buffering=1) as out:
        for line in plan.read_text().splitlines():
            entry = json.loads(line)
            time.sleep(max(0.0, entry["at"] - time.time()))
            print(json.dumps({"job": entry["job"], "time": time.time(), **_submit(entry)}), file=out)
    return 0


def _submit(entry: dict[str, Any]) -> dict[str, str]:
    answer = _try(entry["command"])
    for _ in range(RETRIES):
        if not answer["error"]:
            break
        time.sleep(RETRY_DELAY_S)
        found = _accepted(entry["name"])
        answer = {"id": found, "error": ""} if found else _try(entry["command"])
    return answer


def _accepted(name: str) -> str:
    """Return the id of the job of this name, ended or not; "" if there is none or Slurm does not answer.

    Slurm keeps a job that it has refused, such as one for which too few nodes had registered, as failed and without nodes.
    """
    command = ["squeue", "--noheader", "--states=all", f"--name={name}", "--format=%i|%T|%N"]
    jobs = [line.split("|") for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines()]
    return next((job.strip() for job, *ended in jobs if ended != ["FAILED", ""]), "")


def _try(command: list[str]) -> dict[str, str]:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with _standard_streams(out.fileno(), err.fileno()):
            code = _tsbatch(command[1:]) if command[0] == "tsbatch" else subprocess.run(command).returncode
        printed, errors = _content(out), _content(err)
    return {"id": printed.partition(";")[0], "error": (errors or f"exit code {code}") if code else ""}


def _tsbatch(words: list[str]) -> int:
    """Run tsbatch in this process, with an environment of its own: it sets variables there for the job.

    A Python process for each job would cost more than everything else.
    """
    before = dict(os.environ)
    try:
        return tsbatch.main(words)
    finally:
        os.environ.clear()
        os.environ.update(before)


def _content(file: IO[str]) -> str:
    file.seek(0)
    return file.read().strip()


@contextlib.contextmanager
def _standard_streams(*handles: int) -> Iterator[None]:
    """Redirect standard output and error of this process and its children to `handles`."""
    saved = [os.dup(number) for number in (1, 2)]
    try:
        for number, handle in zip((1, 2), handles, strict=True):
            os.dup2(handle, number)
        yield
    finally:
        for number, handle in zip((1, 2), saved, strict=True):
            os.dup2(handle, number)
            os.close(handle)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
