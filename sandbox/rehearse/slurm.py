"""One job as its owner can treat it: submit, look, signal, requeue, cancel. No rights of an operator, no controller needed."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tiresias.errors import TiresiasError, UsageError
from tiresias.protocol import control
from tiresias.slurm_plugin.backends.commands import CommandsBackend
from tiresias.slurm_plugin.backends.protocol import JobRefused, NoSuchJob, SlurmJob
from tiresias.wrappers import sbatch_options, settings
from tiresias.wrappers.scheduling_notes import submit_options

LOOK = 0.2  # seconds between two looks at the job's folder
ASK = 2.0  # seconds between two questions to Slurm
_FIELD = re.compile(r"(?:^|\s)(StdOut|WorkDir)=(.*?)(?=\s+[A-Z]\w*=|$)", re.MULTILINE)


class OwnJob:
    """id: as squeue prints it. Raises TiresiasError where Slurm refuses or does not answer."""

    def __init__(self, words: Sequence[str]) -> None:
        """Submit through tsbatch; `words`: sbatch's options and the script."""
        self.settings = settings.of_job(os.environ)
        refuse_unwritable(words, self.settings)
        self._slurm = CommandsBackend()
        done = _run("tsbatch", "--parsable", *words, env=os.environ | self.settings)
        self.id = done.stdout.strip().partition(";")[0]
        if done.returncode or not re.fullmatch("[0-9]+", self.id):
            raise UsageError(f"sbatch refused the job: {(done.stderr.strip() or done.stdout.strip())[-300:]}")
        self.left_alone = "left to sbatch" in done.stderr  # tsbatch said why
        self.words = done.stderr.strip()
        self._asked, self._record = 0.0, None  # type: float, SlurmJob | None

    def record(self, fresh: bool = False) -> SlurmJob | None:
        """At most ASK seconds old; None: Slurm has forgotten it."""
        if fresh or time.monotonic() - self._asked >= ASK:
            self._asked = time.monotonic()
            try:
                self._record = self._slurm.job(self.id)
            except NoSuchJob:
                self._record = None
        return self._record

    def report(self) -> control.JobReport:
        """What supervisor and program say."""
        root = Path(self.settings["TIRESIAS_CONTROL_ROOT"])
        return control.report(root, os.getuid(), self.id, "this installation")

    @property
    def checkpoints(self) -> Path:
        """Where its program says that they are, else where they are by default."""
        folder = control.job_folder(Path(self.settings["TIRESIAS_CONTROL_ROOT"]), os.getuid(), self.id)
        said = control.read(folder / control.PROGRAM, os.getuid()).get("folder")
        return Path(said) if isinstance(said, str) else Path(self.settings["TIRESIAS_CHECKPOINT_ROOT"]) / self.id

    def files(self) -> dict[str, Path]:
        """StdOut and WorkDir."""
        shown = _run("scontrol", "show", "job", self.id).stdout
        return {name: Path(value.strip()) for name, value in _FIELD.findall(shown)}

    def signal(self) -> None:
        self._slurm.signal(self.id, self.settings.get("TIRESIAS_SIGNAL", "USR2"))

    def requeue(self) -> None:
        """Raises JobRefused."""
        self._slurm.requeue(self.id)

    def elsewhere(self, job: SlurmJob, before: Sequence[str]) -> bool:
        """Have the waiting job start at once, and not on the nodes of its last run where others are idle; whether they are."""
        idle = _run("sinfo", "-h", "-N", "-t", "idle", "-p", job.partition, "-o", "%N").stdout.split()
        enough = len(set(idle) - set(before)) >= max(len(before), 1)
        if enough:
            avoided = ",".join(sorted({*job.excluded_nodes, *before}))
            enough = not _run("scontrol", "update", f"JobId={self.id}", f"ExcNodeList={avoided}").returncode
        _run("scontrol", "update", f"JobId={self.id}", "StartTime=now")
        return enough

    def cancel(self) -> None:
        _run("scancel", "--quiet", self.id)


def refuse_unwritable(words: Sequence[str], roots: Mapping[str, str]) -> None:
    """Raises UsageError where the job could not write its log, its checkpoints or its control files. words: as for OwnJob."""
    for variable, what in (("TIRESIAS_CONTROL_ROOT", "control files"), ("TIRESIAS_CHECKPOINT_ROOT", "checkpoints")):
        if not _is_writable(Path(roots[variable])):
            raise UsageError(
                f"{roots[variable]} is not writable, and the job's {what} go there: set {variable} to a folder of yours"
            )
    if not _is_writable(Path.cwd()) and not _has_output(words):
        raise UsageError(
            f"{Path.cwd()} is not writable, and the job's log goes there: use another folder, or --output=FILE"
        )


def _is_writable(folder: Path) -> bool:
    """Of a folder that is not there: whether it could be made."""
    there = next((place for place in (folder, *folder.parents) if place.exists()), Path("/"))
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _has_output(words: Sequence[str]) -> bool:
    line = sbatch_options.split(words)
    try:
        script = Path(line.operands[0]).read_bytes() if line.operands else b""
    except OSError:
        script = b""
    return "SBATCH_OUTPUT" in os.environ or bool({"o", "output"} & submit_options.of(line.options, script, {}).keys())


def is_here() -> bool:
    """Whether a Slurm answers on this machine."""
    try:
        return _run("scontrol", "ping").returncode == 0
    except TiresiasError:
        return False


def _run(*argv: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            env=env,
            check=False,
        )
    except FileNotFoundError:
        raise TiresiasError(f"{argv[0]} is not in PATH: load your site's Slurm module") from None
    except subprocess.TimeoutExpired:
        raise TiresiasError(f"{argv[0]} does not answer: is slurmctld up?") from None


__all__ = ["JobRefused", "OwnJob", "is_here", "refuse_unwritable"]
