"""What the supervisor knows of its job: id, run, folders. Everything comes from the environment that Slurm and tsbatch give."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tiresias.checkpoint import control
from tiresias.checkpoint.notes import say


class Job(NamedTuple):
    """control, checkpoints: folders of this job, None where they could not be had. restart: Slurm's count of this run."""

    id: str
    restart: int
    run_id: str
    control: Path | None
    checkpoints: Path | None
    signal_name: str

    def child_env(self, env: Mapping[str, str]) -> dict[str, str]:
        """The user's environment, touched only in TIRESIAS_*; variables of another job that came along are gone."""
        ours = {
            "TIRESIAS_CONTROL": self.control,
            "TIRESIAS_CHECKPOINT_DIR": self.checkpoints,
            "TIRESIAS_RESTART": self.restart,
            "TIRESIAS_SIGNAL": self.signal_name,
            "TIRESIAS_RUN_ID": self.run_id,
        }
        kept = {name: value for name, value in env.items() if name not in ours}
        return kept | {name: str(value) for name, value in ours.items() if value is not None}


def job_id(env: Mapping[str, str]) -> str:
    """As squeue's %i prints it: 123, or 123_4 for an array task."""
    array, task = env.get("SLURM_ARRAY_JOB_ID"), env.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else env.get("SLURM_JOB_ID", "")


def from_env(env: Mapping[str, str]) -> Job:
    """Find or make the job's folders; what cannot be had is None, with a line in the log that says what follows."""
    name, restart = job_id(env), _count(env.get("SLURM_RESTART_COUNT", "0"))
    folder = _control_folder(env.get("TIRESIAS_CONTROL_ROOT", ""), name, restart)
    return Job(
        id=name,
        restart=restart,
        run_id=_run_id(folder, name, restart, env),
        control=folder,
        checkpoints=_checkpoint_folder(env.get("TIRESIAS_CHECKPOINT_ROOT", ""), name, restart),
        signal_name=env.get("TIRESIAS_SIGNAL") or "USR2",
    )


def _control_folder(root: str, name: str, restart: int) -> Path | None:
    try:
        folder = control.job_folder(_root(root), os.getuid(), name)
        own_folder(folder.parent, 0o755)
        _first_run(folder, restart)
        own_folder(folder, 0o755)
        own_folder(folder / control.RANKS, 0o755)
        return folder
    except OSError as error:
        say(
            f"no control folder in {root or 'TIRESIAS_CONTROL_ROOT'}: {error.strerror or error}; this job will not be preempted"
        )
        return None


def _checkpoint_folder(root: str, name: str, restart: int) -> Path | None:
    try:
        folder = _unless_foreign(_root(root) / name)
        _first_run(folder, restart)
        own_folder(folder, 0o700)
        return folder
    except OSError as error:
        say(
            f"no checkpoint folder in {root or 'TIRESIAS_CHECKPOINT_ROOT'}: {error.strerror or error}; programs use their own"
        )
        return None


def _unless_foreign(folder: Path) -> Path:
    """Another name beside it where `folder` is somebody else's: an older job had this id, and the root is everybody's."""
    other = folder.with_name(f"{folder.name}-{os.getuid()}")
    return other if _owner(folder) not in (None, os.getuid()) or _owner(other) == os.getuid() else folder


def _owner(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except FileNotFoundError:
        return None


def _root(text: str) -> Path:
    root = Path(text)
    if not root.is_absolute():
        raise OSError("not an absolute path")
    root.mkdir(parents=True, exist_ok=True)
    return root


def own_folder(path: Path, mode: int) -> None:
    """Make `path`, or take it when it is a folder of ours and no link. Raises OSError."""
    try:
        path.mkdir()
        path.chmod(mode)
    except FileExistsError:
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError(0, f"{path} is not a folder of yours") from None


def _first_run(folder: Path, restart: int) -> None:
    """In a job's first run what stands there is of an older job with the same id (Slurm reuses ids): moved aside, not removed."""
    if restart or not folder.exists():
        return
    number = 1
    while (aside := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    folder.rename(aside)
    say(f"{folder} was left by an older job with this id; it is now {aside.name}")


def _run_id(folder: Path | None, name: str, restart: int, env: Mapping[str, str]) -> str:
    """Made in the first run, with its moment because ids are reused; later runs find it in supervisor.json."""
    before = control.read(folder / control.SUPERVISOR, os.getuid()).get("run_id") if folder and restart else None
    if isinstance(before, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,120}", before):
        return before
    cluster = re.sub(r"[^A-Za-z0-9.-]", "_", env.get("SLURM_CLUSTER_NAME", "slurm"))
    moment = env.get("SLURM_JOB_START_TIME", "") if folder else ""
    return "-".join(filter(None, [cluster, name, moment if moment.isdigit() else ""]))


def _count(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,9}", text, re.ASCII) else 0
