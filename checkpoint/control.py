"""The control folder: how a job and the daemon speak, over the shared file system and nothing else.

    <control root>/<uid>/<job id>/
        supervisor.json   written by the job's supervisor only
        program.json      written by the training program (rank 0) only
        stop-<restart>    made by the supervisor: "save and exit 99"; ranks on other nodes see it here
        ranks/<host>-<pid>-<start ticks>   one file a rank that handles the checkpoint signal by itself

Every file is one JSON object, at most MAX_BYTES, put there by an atomic rename. The daemon reads only files that are regular, small
and owned by the job's user, and believes them only about that job: a lie hurts only the liar.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_BYTES = 16 * 1024
SUPERVISOR, PROGRAM = "supervisor.json", "program.json"


@dataclass(frozen=True, slots=True)
class JobReport:
    """What a job says of its present run. Anything missing or malformed reads as the default.

    restart: Slurm's restart count of the run that speaks; older reports are about an older run.
    state: "running", "saving" (signal seen), "parked" (checkpoint committed and verified, waiting for the requeue), "ended".
    ready: the program handles the checkpoint signal and could save at its next step.
    step: step of the newest committed checkpoint, -1: none yet.
    """

    restart: int = -1
    state: str = ""
    ready: bool = False
    step: int = -1


def job_folder(root: Path, uid: int, job_id: str) -> Path:
    return root / str(uid) / job_id


def write(folder: Path, name: str, content: dict[str, Any]) -> None:
    """Put `content` at folder/name in one rename. Raises OSError."""
    handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.chmod(temporary, 0o644)  # the daemon is another user
        os.replace(temporary, folder / name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read(path: Path, uid: int) -> dict[str, Any]:
    """The object at `path`, or {} where there is none that may be believed."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return {}
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != uid or found.st_size > MAX_BYTES:
            return {}
        return _parse(file.read(MAX_BYTES + 1))


def _parse(text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def report(root: Path, uid: int, job_id: str) -> JobReport:
    """Join what supervisor and program of one run say."""
    folder = job_folder(root, uid, job_id)
    supervisor, program = read(folder / SUPERVISOR, uid), read(folder / PROGRAM, uid)
    restart = _integer(supervisor.get("restart"))
    if _integer(program.get("restart")) != restart:
        program = {}
    return JobReport(
        restart=restart,
        state=state if isinstance(state := supervisor.get("state"), str) else "",
        ready=program.get("ready") is True,
        step=max(_integer(supervisor.get("step")), _integer(program.get("step"))),
    )


def _integer(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
