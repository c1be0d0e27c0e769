"""The script of each job, and its owner's choices of `--opportunistic` and `--elastic`, from the notes of tsbatch in the user's
control folder (protocol/submitted_scripts.py).

Slurm's record has the script's path only. A file on a network file system may become visible late, so the lookup of a new job is
repeated until it succeeds. Of scripts that a user submits under one name within two seconds the newest is found for all of them:
once a job runs, its supervisor reports the right one. Where the notes of several submissions can be meant, the batch script that
Slurm keeps states the choices (batch_scripts.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.protocol import control, opportunistic_choice, submitted_scripts
from tiresias.protocol.batch_script_statements import OwnerChoices
from tiresias.slurm_plugin.backends.interface import Backend, SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.observation.batch_scripts import BatchScripts

NEW_SECONDS = 90.0  # after its submission, or after the first lookup
AGAIN_SECONDS = 3.0  # between two reads of a file
READS = 300  # files for each snapshot
WORDS = 8  # of a path at most, before arguments, as Slurm 22.05 shows them together


class Notes(NamedTuple):
    """The notes of one path: pairs of epoch seconds and hash, choice or sizes, as submitted_scripts.py returns them."""

    scripts: list[tuple[int, str]]
    choices: list[tuple[int, str]]
    sizes: list[tuple[int, str]]


class PossibleChoices(NamedTuple):
    """The choices of the notes that can be those of a job."""

    opportunistic: set[str]
    elastic: set[str]


NO_NOTES = Notes([], [], [])


class KnownScripts:
    """A back end whose jobs have their `script`, `opportunistic` and `elastic`.

    Each job is looked up once; an unchanged record costs a dictionary lookup.

    Attributes:
        batch_scripts: Reads the batch scripts of jobs whose notes are ambiguous.
    """

    def __init__(self, backend: Backend, root: Path, clock: Callable[[], float] = time.time) -> None:
        self._backend, self._root, self._clock = backend, root, clock
        self._jobs: dict[str, tuple[SlurmJob, SlurmJob]] = {}  # the record without and with its script
        self._found: dict[str, str] = {}  # job id -> hash
        self._chosen: dict[str, OwnerChoices] = {}  # by job id
        self._ambiguous: dict[str, PossibleChoices] = {}  # by job id, until the batch script is read
        self._until: dict[str, float] = {}  # job id -> when it is no longer looked up
        self._files: dict[tuple[int, str], tuple[float, Notes]] = {}
        self._reads = 0
        self._snapshot_at = 0.0
        self.batch_scripts = BatchScripts(lambda job_id: backend.batch_script(job_id))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def snapshot(self) -> SlurmSnapshot:
        """Return the back end's snapshot, with scripts."""
        found, self._reads = self._backend.snapshot(), 0
        self._snapshot_at = self._clock()
        self.batch_scripts.begin()
        jobs = tuple(map(self._named, found.jobs))
        here = {job.id for job in jobs}
        for gone in (self._jobs.keys() | self._found.keys() | self._until.keys()) - here:
            self._forget(gone)
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
        if before and _is_another(before[0], job):
            self._forget(job.id)
            before = None
        is_settled = job.id not in self._ambiguous
        if before and before[0] is job and is_settled and (before[1].script or self._is_over(job)):
            return before[1]
        script = job.script or self._found.get(job.id, "") or self._look_up(job)
        self._settle(job)
        noted = self._chosen.get(job.id, OwnerChoices())
        chosen, elastic = job.opportunistic or noted.opportunistic, job.elastic or noted.elastic
        is_known = (script, chosen, elastic) == (job.script, job.opportunistic, job.elastic)
        named = job if is_known else replace(job, script=script, opportunistic=chosen, elastic=elastic)
        self._jobs[job.id] = job, named
        return named

    def _forget(self, job_id: str) -> None:
        for known in (self._jobs, self._found, self._chosen, self._ambiguous, self._until):
            known.pop(job_id, None)

    def _look_up(self, job: SlurmJob) -> str:
        now = self._clock()
        until = self._until.setdefault(job.id, now + NEW_SECONDS)
        if not job.batch or now > until:
            return ""
        for key in _keys(job):
            noted = self._read(job, key, now)
            if script := submitted_scripts.at(noted.scripts, job.submit_time):
                self._found[job.id] = script
                if not job.restarts:  # a requeue moves the time of the submission: others have submitted since
                    self._ambiguous[job.id] = PossibleChoices(
                        submitted_scripts.choices_at(noted.choices, job.submit_time),
                        submitted_scripts.sizes_at(noted.sizes, job.submit_time),
                    )
                return script
        return ""

    def _is_over(self, job: SlurmJob) -> bool:
        """Return whether a job is no longer looked up."""
        return self._clock() > self._until.get(job.id, 0.0)

    def _settle(self, job: SlurmJob) -> None:
        """Take the choices of a job from its notes, or from its batch script where they are ambiguous and it waits for its first
        run: the supervisor of a run reports them."""
        possible = self._ambiguous.get(job.id)
        if possible is None:
            return
        self._chosen[job.id] = OwnerChoices(*("".join(each) if len(each) == 1 else "" for each in possible))
        if max(map(len, possible)) > 1 and job.state == "PENDING" and not job.restarts:
            stated = self.batch_scripts.choices(job)
            if stated is None:
                return
            self._chosen[job.id] = _chosen(possible, stated)
        del self._ambiguous[job.id]

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


def _is_another(before: SlurmJob, job: SlurmJob) -> bool:
    """Return whether a killed slurmctld has given the id to another job: only a requeue changes the time of a submission."""
    return job.restarts == 0 and before.submit_time != job.submit_time


def _chosen(possible: PossibleChoices, stated: OwnerChoices) -> OwnerChoices:
    """Return the choices that a batch script states. Only notes have whether the script is seen to save (`saves`)."""
    is_yes = {opportunistic_choice.YES, opportunistic_choice.SAVES}
    noted = possible.opportunistic & is_yes if stated.opportunistic == opportunistic_choice.YES else set()
    return stated._replace(opportunistic="".join(noted) if len(noted) == 1 else stated.opportunistic)


def _keys(job: SlurmJob) -> list[str]:
    """Where it may be noted: the whole command, then its first words, one less each time."""
    words = job.command.split(" ")
    ends = dict.fromkeys([len(words), *range(min(len(words), WORDS), 0, -1)])
    return [submitted_scripts.key(" ".join(words[:end]), job.name) for end in ends]
