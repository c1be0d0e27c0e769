"""The control folder: how a job and the daemon speak, over the shared file system and nothing else.

    <control root>/<uid>/<job id>/
        supervisor.json   written by the job's supervisor only
        program.json      written by the training program (rank 0) only; the supervisor removes it before it starts the script
        activity.json     for how long its GPUs have been unused, written by a process of the supervisor (gpu_activity.py)
        memory/<node>.json   what the job has of remote memory there, by the node's own process (remote_memory_use.py)
        progress.json     how far the training is, written by rank 0 of the program or by the supervisor (progress.py)
        submission.json   whose folder this is: the number that tsbatch gave to the submission (wrappers/job_folders.py)
        stop-<restart>    made by the supervisor, or by a rank that was asked to stop: "save and exit 99"; all ranks see it
        ranks/<host>-<pid>-<start ticks>   one file a rank that handles the checkpoint signal by itself (rank_files.py)
        servers/<host>-<pid>-<start ticks>   one file a parameter server that reports its own work (rank_files.py)
        image/            the script of a job whose processes are dumped as an image (wrappers/images)
        profile/          what was recorded of the job's trial run (profiler), trial: that this run has made one
    <control root>/<uid>/profiles/         what was learned from such recordings, a file a kind of job (profile_summary.py)
    <control root>/<uid>/submitted/        which script was submitted from which path, and when (submitted_scripts.py)
    <control root>/<uid>/scripts/          what the last job of a script showed, for its owner alone (wrappers/previous_job.py)
    <control root>/controller/protocol.json   the versions that the controller speaks (versions.py), which no job has to read

Every file is one JSON object, at most MAX_BYTES, put there by an atomic rename. The daemon reads only files that are
regular, small and owned by the job's user, in folders that are that user's own and no links, and trusts them only about that
job: a false report only affects its own job. (In a root that all users may write to, another user could create the user's folder
first, and lead the controller from there to a file that the user wrote about another job.)

Each file states the versions of this protocol that its writer speaks ("protocol", versions.py). A run writes supervisor.json and
program.json no more once a later run of the job has begun (later_runs.py).
supervisor.json: restart, state, step, run_id, why, began (epoch seconds), reached (the step at which the run before was last seen),
end (epoch second at which the supervisor expects the time limit to end the run, 0: no limit; missing where not known),
opportunistic (the owner's choice: opportunistic_choice.py), elastic (the sizes that the job can use: elastic_sizes.py).
program.json: restart, ready, step, requeue, folder ("requeue": the program has saved and exits to be requeued; "folder": where its
checkpoints are), and what it measured: save (seconds of the newest save), saved_at (epoch seconds of the newest commit), resumed
(the step it resumed from, 0: the beginning), ready_at (epoch seconds of its first step in this run), at (the newest step it was
seen at), pace (seconds a step in this run), alone (one process registers for the whole job, whatever its size).
Light imports only: every supervisor imports this.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.errors import CorruptCheckpoint
from tiresias.protocol import elastic_sizes, versions
from tiresias.protocol.files import open_folder, own_folder, read_small
from tiresias.protocol.job_kind import hash_of_script
from tiresias.protocol.opportunistic_choice import known

MAX_BYTES = 16 * 1024
MOST = 10**15  # restarts, steps; no job gets there
LONGEST = 1e6  # seconds that a save or a restore may claim to have taken
EXIT_REQUEUE = 99  # a program's exit code: "checkpointed, requeue me"
LIMIT_SIGNAL = "URG"  # to a supervisor: the run ends earlier than it reports, it is to ask Slurm; ignored by default
SUPERVISOR, PROGRAM, RANKS, SUBMISSION = "supervisor.json", "program.json", "ranks", "submission.json"
PROGRESS, SERVERS, ACTIVITY = "progress.json", "servers", "activity.json"
PROFILE, TRIAL = "profile", "trial"
CONTROLLER, PROTOCOL = "controller", "protocol.json"
IMAGE = "image"  # the script of a job whose processes are dumped as an image
MEMORY = "memory"  # reports on remote memory, which begin before the supervisor: each states when
KEPT = (SUPERVISOR, RANKS, PROFILE, SUBMISSION, IMAGE, MEMORY)  # from run to run


class JobReport(NamedTuple):
    """The report of a job on its present run. Anything missing or malformed reads as the default.

    restart: Slurm's restart count of the run that speaks; older reports are about an older run.
    state: "running", "saving" (signal seen), "parked" (checkpoint committed and verified, waiting for the requeue), "ended".
    ready: the program handles the checkpoint signal and could save at its next step.
    step: step of the newest committed checkpoint, -1: none yet.
    why: "limit" where it saves or parks because its time limit is near, "" where it was asked to.
    save: seconds of the newest save. restore: seconds from the run's start to its first step. redone: steps of the run before that
    this one does again. at: the newest step it was seen at. resumed: the step it resumed from, 0: it began from the beginning.
    pace: seconds a step. saved_at: epoch seconds of the commit of `step`. start: epoch second at which the run began
    by Slurm's record, 0 where unknown. protocol: the version that program, supervisor and this reader use, 0: none in common.
    refused: why there is none; such a job is never ready. script: the hash of the script that runs, "" where unknown.
    opportunistic: the owner's choice (opportunistic_choice.py), "" where unknown. elastic: the sizes that the job can use
    (elastic_sizes.py), "" for a fixed one. alone: one process registers for the whole job, whatever its size. end: epoch second at
    which the supervisor expects the time limit to end the run, inf: no limit, None: not known.
    """

    restart: int = -1
    state: str = ""
    ready: bool = False
    step: int = -1
    why: str = ""
    save: float | None = None
    restore: float | None = None
    redone: int | None = None
    at: int = -1
    resumed: int = -1
    pace: float | None = None
    saved_at: float | None = None
    start: int = 0
    protocol: int = 1
    refused: str = ""
    script: str = ""
    opportunistic: str = ""
    elastic: str = ""
    alone: bool = False
    end: float | None = None


def job_folder(root: Path, uid: int, job_id: str) -> Path:
    """Return the control folder of a job."""
    return root / str(uid) / job_id


def profiles_folder(root: Path, uid: int) -> Path:
    """Return the folder of a user's profiles."""
    return root / str(uid) / "profiles"


def scripts_folder(root: Path, uid: int) -> Path:
    """Return the folder of the results of a user's scripts."""
    return root / str(uid) / "scripts"


def submitted_folder(root: Path, uid: int) -> Path:
    """Return the folder of a user's submitted scripts."""
    return root / str(uid) / "submitted"


def stop_file(folder: Path, restart: int) -> Path:
    """Return the file that requests a save from a run."""
    return folder / f"stop-{restart}"


def write(folder: Path, name: str, content: dict[str, Any]) -> None:
    """Put `content` at folder/name in one rename. Raises OSError."""
    temporary = folder / f".{name}.{os.getpid()}"
    try:
        temporary.unlink(missing_ok=True)  # of an earlier process of this number, or planted: never written through
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, 0o644)  # whatever the umask: the daemon is another user
            json.dump(content, file)
        temporary.replace(folder / name)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read(path: Path, uid: int) -> dict[str, Any]:
    """Return the object at `path`, or {} without a trusted one: file, folder and the one above belong to the user."""
    try:
        with open_folder(path.parent.parent) as above, open_folder(path.parent.name, above) as folder:
            return _parse(read_small(folder, path.name, MAX_BYTES)) if os.fstat(above).st_uid == uid else {}
    except (OSError, ValueError, CorruptCheckpoint):  # ValueError: a name with a NUL
        return {}


def make(folder: Path, submission: str, uid: int | None = None) -> None:
    """A job's control folder, and the user's around it, where they are not there already. uid: as own_folder. Raises OSError."""
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    for path in (folder.parent, folder, folder / RANKS):
        own_folder(path, 0o755, uid)
    mark(folder, submission)


def mark(folder: Path, submission: str) -> None:
    """Have it known whose folder this is, where the job has a number. Raises OSError."""
    if submission and submission_of(folder) != submission:
        write(folder, SUBMISSION, {"submission": submission})


def submission_of(folder: Path) -> str:
    """Return the submission that the folder belongs to, "" where unknown."""
    try:
        with open_folder(folder) as place:
            noted = _parse(read_small(place, SUBMISSION, MAX_BYTES)).get("submission")
    except (OSError, CorruptCheckpoint):
        return ""
    return noted if isinstance(noted, str) else ""


def is_anothers(folder: Path, own: str) -> bool:
    """Whether an older job of this id left what is here: its mount came back, and hides the folder of the job numbered `own`."""
    return bool(own) and submission_of(folder) not in ("", own)


def _parse(text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def report(root: Path, uid: int, job_id: str, reader: str = "this controller") -> JobReport:
    """Join the reports of supervisor and program of one run. reader: its name in a refusal."""
    folder = job_folder(root, uid, job_id)
    supervisor, program = read(folder / SUPERVISOR, uid), read(folder / PROGRAM, uid)
    restart = integer(supervisor.get("restart"))
    if integer(program.get("restart")) != restart:
        program = {}
    refused = _refusal(supervisor, program, reader)
    return JobReport(
        restart=restart,
        state=state if isinstance(state := supervisor.get("state"), str) else "",
        ready=program.get("ready") is True and not refused,
        step=max(integer(supervisor.get("step")), integer(program.get("step"))),
        why=why if isinstance(why := supervisor.get("why"), str) else "",
        save=_seconds(program.get("save"), 0.0),
        restore=_seconds(program.get("ready_at"), supervisor.get("began")),
        redone=_redone(integer(supervisor.get("reached")), integer(program.get("resumed"))),
        at=integer(program.get("at")),
        resumed=integer(program.get("resumed")),
        pace=_seconds(program.get("pace"), 0.0) or None,
        saved_at=_moment(program.get("saved_at")),
        start=max(integer(supervisor.get("start")), 0),
        protocol=0
        if refused
        else min(versions.common(versions.OWN, versions.stated(one)) for one in (supervisor, program)),
        refused=refused,
        script=hash_of_script(supervisor.get("script")),
        opportunistic=known(supervisor.get("opportunistic")),
        elastic=elastic_sizes.known(supervisor.get("elastic")),
        alone=program.get("alone") is True,
        end=_end(supervisor.get("end")),
    )


def _refusal(supervisor: dict[str, Any], program: dict[str, Any], reader: str) -> str:
    """Why the two files cannot be used; "" where they can. A file that is not there yet refuses nothing."""
    sides = (
        ("slurm-tiresias-checkpoint in the job's environment", program),
        ("slurm-tiresias where the job was submitted", supervisor),
    )
    return next(
        (found for name, one in sides if one and (found := versions.refusal(name, versions.stated(one), reader))), ""
    )


def state_controller(root: Path) -> None:
    """Leave the versions that this controller speaks for the supervisors. Raises OSError."""
    own_folder(root / CONTROLLER, 0o755)
    write(root / CONTROLLER, PROTOCOL, {versions.KEY: versions.OWN})


def of_controller(root: Path) -> versions.Versions:
    """The versions that the controller speaks."""
    return versions.stated(_parse(versions.read_trusted(root, CONTROLLER, PROTOCOL, MAX_BYTES)))


def _seconds(end: object, begin: object) -> float | None:
    """end - begin where both are numbers and the difference may be a duration, else None."""
    if not isinstance(end, (int, float)) or not isinstance(begin, (int, float)):
        return None
    return min(max(float(end - begin), 0.0), LONGEST) if abs(end) < 1e12 and abs(begin) < 1e12 else None


def _moment(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and 0 < value < 1e12 else None


def _end(value: object) -> float | None:
    return math.inf if value == 0 and not isinstance(value, bool) else _moment(value)


def _redone(reached: int, resumed: int) -> int | None:
    return max(0, reached - resumed) if reached >= 0 and resumed >= 0 else None


def integer(value: object) -> int:
    """`value` where it may be a count, else -1: JSON allows integers of thousands of digits."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST else -1
