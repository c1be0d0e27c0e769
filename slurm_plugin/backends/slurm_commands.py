"""Runs Slurm's commands: each call is one process with a timeout, and its error messages become exceptions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from tiresias.slurm_plugin.backends import processes
from tiresias.slurm_plugin.backends.interface import JobRefused, NoSuchJob, NotRequeueable, SlurmUnavailable
from tiresias.slurm_plugin.backends.unindexed_jobs import UnindexedJobs

# 123, 123_4 (array task), 123+1 (het component), 123_[0-4,9] (some tasks): squeue(1), JOBID
_JOB_ID = re.compile(r"[1-9]\d*([_+]\d+|_\[\d+([-,]\d+)*\])?", re.ASCII)
_DOWN = re.compile(
    "unable to contact slurm controller|connection refused|socket timed out|communication|unable to establish|"
    "zero bytes were transmitted|in standby|could not load|resolve|munge|authentication",
    re.IGNORECASE,
)
_UNKNOWN = re.compile("invalid job id", re.IGNORECASE)
_NEVER = re.compile("only batch jobs|requested operation is presently disabled|job is not requeue", re.IGNORECASE)


class SlurmCommands:
    """Slurm's commands.

    Args:
        deadline: Seconds that one command may take.
        prefix: Words before each command, for a Slurm that is reached through another program (ssh, nsenter).
    """

    def __init__(self, deadline: float, prefix: Sequence[str] = ()) -> None:
        self._deadline, self._prefix, self._unindexed = deadline, tuple(prefix), UnindexedJobs()

    def call(self, *argv: str) -> bytes:
        """Return the output of a command. Raises SlurmUnavailable, or JobRefused and its kinds."""
        done = processes.run(argv, self._deadline, self._prefix)
        words = done.stderr.decode(errors="replace").strip()
        if done.returncode or (not done.stdout and _DOWN.search(words)):
            raise explain(words.splitlines()[-1] if words else f"{argv[0]} failed with exit code {done.returncode}")
        return bytes(done.stdout)

    def read(self, *argv: str) -> bytes:
        """Return the output of a query that concerns no single job. Raises SlurmUnavailable or NoSuchJob."""
        try:
            return self.call(*argv)
        except NoSuchJob:
            raise
        except JobRefused as error:
            raise SlurmUnavailable(f"{argv[0]}: {error}") from None

    def read_json(self, key: str, *argv: str) -> list[dict[str, Any]]:
        """Return the records under `key` of a command's JSON. Raises as `read` does."""
        output = self.read(*argv)
        try:
            found = json.loads(output.decode(errors="replace"), strict=False)[key]
        except (ValueError, KeyError, TypeError) as error:
            raise SlurmUnavailable(
                f"`{' '.join(argv)}` gave no readable JSON ({error}): is its JSON plugin installed?"
            ) from error
        return list(found)

    def operate(self, job_id: str, *argv: str) -> None:
        """Run a command that changes a job. Raises as `call` does; the message names the job."""
        checked(job_id)
        self._unindexed.check(job_id)
        try:
            self.call(*argv)
        except JobRefused as error:
            refusal = type(error)(f"job {job_id}: {error}")
            self._unindexed.note(job_id, str(refusal))
            raise refusal from None
        self._unindexed.note(job_id, "")

    def update(self, job_id: str, *changes: str) -> None:
        """Run `scontrol update` for a job. Raises as `operate` does."""
        self.operate(job_id, "scontrol", "update", f"JobId={job_id}", *changes)


def explain(words: str) -> SlurmUnavailable | JobRefused:
    """Return the exception for an error message of Slurm, which becomes its message."""
    if _UNKNOWN.search(words):
        return NoSuchJob(words)
    if _NEVER.search(words):
        return NotRequeueable(words)
    return SlurmUnavailable(words) if _DOWN.search(words) else JobRefused(words)


def checked(job_id: str) -> str:
    """Return the job id. Raises NoSuchJob where it is none: it comes from users, and becomes part of command lines."""
    if not _JOB_ID.fullmatch(job_id):
        raise NoSuchJob(f"job {job_id!r}: not a job id: write 123, 123_4 or 123+1")
    return job_id
