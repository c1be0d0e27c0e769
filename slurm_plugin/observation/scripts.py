"""The script of each job, and its owner's choices of `--opportunistic` and `--elastic`, from the notes of tsbatch in the user's
control folder (protocol/submitted_scripts.py).

Slurm's record has the script's path only. A file on a network file system may become visible late, so the lookup of a new job is
repeated until it succeeds. Of scripts that a user submits under one name within two seconds the newest is found for all of them:
once a job runs, its supervisor reports the right one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.protocol import control, submitted_scripts
from tiresias.slurm_plugin.backends.interface import Backend, SlurmJob, SlurmSnapshot

NEW_SECONDS = 90.0  # after its submission, or after the first lookup
AGAIN_SECONDS = 3.0  # between two reads of a file
READS = 300  # files for each snapshot
WORDS = 8  # of a path and arguments, as Slurm 22.05 shows them together


class Notes(NamedTuple):
    """The notes of one path: pairs of epoch seconds and hash, choice or sizes, as submitted_scripts.py returns them."""

    scripts: list[tuple[int, str]]
    choices: list[tuple[int, str]]
    sizes: list[tuple[int, str]]


class Choices(NamedTuple):
    """The choices of a job's owner, as opportunistic_choice.py and elastic_sizes.py have them; "": not known."""

    opportunistic: str = ""
    elastic: str = ""


NO_NOTES = Notes([], [], [])


class KnownScripts:
    """A back end whose jobs have their `script`, `opportunistic` and `elastic`.

    Each job is looked up once; an unchanged record costs a dictionary lookup.
    """

    def __init__(self, backend: Backend, root: Path, clock: Callable[[], float] = time.time) -> None:
        self._backend, self._root, self._clock = backend, root, clock
        self._jobs: dict[str, tuple[SlurmJob, SlurmJob]] = {}  # the record without and with its script
        self._found: dict[str, str] = {}  # job id -> hash
        self._chosen: dict[str, Choices] = {}  # by job id
        self._until: dict[str, float] = {}  # job id -> when it is no longer looked up
        self._files: dict[tuple[int, str], tuple[float, Notes]] = {}
        self._reads = 0
        self._snapshot_at = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def snapshot(self) -> SlurmSnapshot:
        """Return the back end's snapshot, with scripts."""
        found, self._reads = self._backend.snapshot(), 0
        self._snapshot_at = self._clock()
        jobs = tuple(map(self._named, found.jobs))
        here = {job.id for job in jobs}
        for known in (self._jobs, self._found, self._chosen, self._until):
            for gone in known.keys() - here:
                del known[gone]
        self._files = {key: file for key, file in self._files.items() if file[0] > self._clock() - NEW_SECONDS}
        return replace(found, jobs=jobs)

    def job(self, job_id: str) -> SlurmJob:
        """Return the back end's record of one job, with its script."""
        return self._named(self._backend.job(job_id))

    def correct(self, job_id: str, script: str) -> None:
        """Take the script that the job's supervisor reports; "" changes nothing."""
        if script and self._found.get(job_id) != script:
            self._found[job_id] = script
            self._jobs.pop(job_id, None)

    def _named(self, job: SlurmJob) -> SlurmJob:
        before = self._jobs.get(job.id)
        if before and before[0] is job and (before[1].script or self._clock() > self._until.get(job.id, 0.0)):
            return before[1]
        script = job.script or self._found.get(job.id, "") or self._look_up(job)
        noted = self._chosen.get(job.id, Choices())
        chosen, elastic = job.opportunistic or noted.opportunistic, job.elastic or noted.elastic
        is_known = (script, chosen, elastic) == (job.script, job.opportunistic, job.elastic)
        named = job if is_known else replace(job, script=script, opportunistic=chosen, elastic=elastic)
        self._jobs[job.id] = job, named
        return named

    def _look_up(self, job: SlurmJob) -> str:
        now = self._clock()
        until = self._until.setdefault(job.id, now + NEW_SECONDS)
        if not job.batch or now > until:
            return ""
        for key in _keys(job):
            noted = self._read(job, key, now)
            if script := submitted_scripts.at(noted.scripts, job.submit_time):
                self._found[job.id] = script
                self._chosen[job.id] = Choices(
                    submitted_scripts.choice_at(noted.choices, job.submit_time),
                    submitted_scripts.sizes_at(noted.sizes, job.submit_time),
                )
                return script
        return ""

    def _read(self, job: SlurmJob, of: str, now: float) -> Notes:
        """The notes of a key, read since the job's submission: its own is noted before that."""
        uid = job.uid
        read_at, notes = self._files.get((uid, of), (-math.inf, NO_NOTES))
        is_older = read_at < min(job.submit_time + submitted_scripts.SKEW, self._snapshot_at)
        if (is_older or now - read_at > AGAIN_SECONDS) and self._reads < READS:
            self._reads += 1
            path = control.submitted_folder(self._root, uid) / submitted_scripts.file_name(of)
            content = control.read(path, uid)
            notes = Notes(
                submitted_scripts.known(content, of),
                submitted_scripts.choices(content, of),
                submitted_scripts.sizes(content, of),
            )
            self._files[uid, of] = now, notes
        return notes


def _keys(job: SlurmJob) -> list[str]:
    """Where it may be noted: the whole command, then without the last word, and so on."""
    words = job.command.split(" ")
    ends = range(len(words), max(len(words) - WORDS, 0), -1)
    return [submitted_scripts.key(" ".join(words[:end]), job.name) for end in ends]
