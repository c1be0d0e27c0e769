"""One garbage collection of a root: what each ended job has left, what is removed of it, and what cannot be."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tiresias.checkpoint.gc.as_owner import as_owner, user_name
from tiresias.checkpoint.gc.job_folder import JobFolder, remove, survey
from tiresias.checkpoint.gc.rule import Retained, is_of_an_ended_job
from tiresias.errors import CorruptCheckpoint, TiresiasError, Unavailable

_SQUEUE = ("squeue", "--all", "--noheader", "--array", "--format=%i")
_TIMEOUT_S = 120.0
_JOB = re.compile(r"[0-9]+(?:[_+][0-9]+)?", re.ASCII)


class Collected(NamedTuple):
    """What was found in the folder of one job.

    Attributes:
        name: Of the folder.
        user: Name of the owner.
        ended: Whether its job has ended.
        size: Bytes of all in it.
        removed: Its entries that were removed, or would be.
        removed_size: Their bytes.
        why: Why nothing was removed although the job has ended, "" where that is as the rule has it.
        failed: Whether the folder could not be read or emptied.
    """

    name: str
    user: str
    ended: bool
    size: int = 0
    removed: tuple[str, ...] = ()
    removed_size: int = 0
    why: str = ""
    failed: bool = False


def active_jobs() -> set[str]:
    """Return the ids of the jobs that Slurm has, without those that have ended. Raises Unavailable."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}  # they would hide jobs
    try:
        done = subprocess.run(_SQUEUE, capture_output=True, text=True, timeout=_TIMEOUT_S, env=env, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"squeue: {error}; nothing is removed without the list of active jobs") from None
    jobs = done.stdout.split()
    if done.returncode or done.stderr or not all(_JOB.fullmatch(job) for job in jobs):
        words = next(iter(done.stderr.splitlines()), "its output is no list of jobs")
        raise Unavailable(f"squeue: {words}; nothing is removed without the list of active jobs")
    return set(jobs)


def collect(root: Path, active: Collection[str], rule: Retained, now: float, dry_run: bool) -> list[Collected]:
    """Remove what the rule does not keep of ended jobs; return what was found in each job's folder, by name.

    Raises:
        Unavailable: The root cannot be read.
    """
    try:
        place = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise Unavailable(
            f"{root}: {error.strerror}; name the folder that holds the jobs' checkpoint folders"
        ) from None
    try:
        return [_collected(place, name, owner, active, rule, now, dry_run) for name, owner in _folders(place)]
    finally:
        os.close(place)


def _folders(root: int) -> Iterator[tuple[str, int]]:
    """Names and owners of the folders of jobs, the caller's own or, for root, of all users."""
    for name in sorted(os.listdir(root)):
        with suppress(FileNotFoundError):  # its owner has removed it
            found = os.lstat(name, dir_fd=root)
            if is_of_an_ended_job(name, ()) and stat.S_ISDIR(found.st_mode) and os.geteuid() in (0, found.st_uid):
                yield name, found.st_uid


def _collected(
    root: int, name: str, owner: int, active: Collection[str], rule: Retained, now: float, dry_run: bool
) -> Collected:
    ended, user = is_of_an_ended_job(name, active), user_name(owner)

    def work() -> tuple[int, list[str], int, str]:
        job = survey(root, name)
        entries = rule.removed(job, now) if ended else []
        if entries and not dry_run:
            remove(root, job, entries)
        return job.size, entries, sum(job.sizes[entry] for entry in entries), _left(job) if ended else ""

    try:
        size, entries, removed_size, why = as_owner(owner, work)
    except TiresiasError as error:
        # what a running job changes meanwhile is no failure; its size is then not counted
        return Collected(name, user, ended, why=_words(error) if ended else "", failed=ended)
    return Collected(name, user, ended, size, tuple(entries), removed_size, why)


def _left(job: JobFolder) -> str:
    return f"{job.strange} is no part of a checkpoint: its owner has to remove the folder" if job.strange else ""


def _words(error: TiresiasError) -> str:
    return "is not a folder" if isinstance(error, CorruptCheckpoint) else str(error)


def bytes_by_user(found: Collection[Collected]) -> dict[str, int]:
    """Return the bytes that each user has left in the root, largest first."""
    sums: Counter[str] = Counter()
    for job in found:
        sums[job.user] += job.size - job.removed_size
    return dict(sums.most_common())
