"""One job with the rights of its owner: submit, query, signal, requeue, cancel. No operator rights and no controller are
needed.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tiresias.errors import TiresiasError, UsageError
from tiresias.protocol import control, environment
from tiresias.slurm_plugin.backends.commands import CommandsBackend
from tiresias.slurm_plugin.backends.interface import JobRefused, NoSuchJob, RequestChange, SlurmJob
from tiresias.wrappers import sbatch_options, settings
from tiresias.wrappers.scheduling_notes import submit_options

POLL_INTERVAL_S = 0.2  # between two reads of the job's folder
QUERY_INTERVAL_S = 2.0  # between two queries of Slurm
_FIELD = re.compile(r"(?:^|\s)(StdOut|WorkDir)=(.*?)(?=\s+[A-Z]\w*=|$)", re.MULTILINE)


class OwnJob:
    """A submitted job.

    Attributes:
        id: as squeue prints it
        settings: of the site
        left_alone: whether tsbatch submitted it without a supervisor
        words: tsbatch's messages

    Raises:
        TiresiasError: Slurm refuses or does not answer.
    """

    def __init__(self, words: Sequence[str]) -> None:
        """Submit through tsbatch; `words`: sbatch's options and the script."""
        self.settings = settings.of_job(os.environ)
        refuse_unwritable(words, self.settings)
        self._slurm = CommandsBackend()
        done = _run("tsbatch", "--parsable", *words, env=os.environ | self.settings)
        self.id = done.stdout.strip().partition(";")[0]
        if done.returncode or not re.fullmatch("[0-9]+", self.id):
            raise UsageError(f"sbatch refused the job: {(done.stderr.strip() or done.stdout.strip())[-300:]}")
        self.left_alone = "left to sbatch" in done.stderr  # words contains the reason
        self.words = done.stderr.strip()
        self._asked, self._record = 0.0, None  # type: float, SlurmJob | None

    def record(self, fresh: bool = False) -> SlurmJob | None:
        """Return Slurm's record, at most QUERY_INTERVAL_S old; None after Slurm has removed the job."""
        if fresh or time.monotonic() - self._asked >= QUERY_INTERVAL_S:
            self._asked = time.monotonic()
            try:
                self._record = self._slurm.job(self.id)
            except NoSuchJob:
                self._record = None
        return self._record

    def report(self) -> control.JobReport:
        """Return the reports of supervisor and program."""
        root = Path(self.settings[environment.CONTROL_ROOT])
        return control.report(root, os.getuid(), self.id, "this installation")

    @property
    def checkpoints(self) -> Path:
        """The folder that the program reports, else the default one."""
        folder = control.job_folder(Path(self.settings[environment.CONTROL_ROOT]), os.getuid(), self.id)
        reported = control.read(folder / control.PROGRAM, os.getuid()).get("folder")
        return (
            Path(reported) if isinstance(reported, str) else Path(self.settings[environment.CHECKPOINT_ROOT]) / self.id
        )

    def files(self) -> dict[str, Path]:
        """Return StdOut and WorkDir."""
        shown = _run("scontrol", "show", "job", self.id).stdout
        return {name: Path(value.strip()) for name, value in _FIELD.findall(shown)}

    def signal(self) -> None:
        """Send the checkpoint signal."""
        self._slurm.signal(self.id, self.settings.get(environment.SIGNAL, "USR2"))

    def requeue(self) -> None:
        """Requeue the job. Raises JobRefused."""
        self._slurm.requeue(self.id)

    def change(self, request: RequestChange) -> None:
        """Change the request of the waiting job, and let it start at once. Raises JobRefused."""
        self._slurm.pin(self.id, request)

    @property
    def control_root(self) -> Path:
        """The root of the control folders."""
        return Path(self.settings[environment.CONTROL_ROOT])

    def elsewhere(self, job: SlurmJob, before: Sequence[str]) -> bool:
        """Let the waiting job start at once, on other nodes than its last run's where enough are idle; return whether they
        are.
        """
        idle = _run("sinfo", "-h", "-N", "-t", "idle", "-p", job.partition, "-o", "%N").stdout.split()
        enough = len(set(idle) - set(before)) >= max(len(before), 1)
        if enough:
            avoided = ",".join(sorted({*job.excluded_nodes, *before}))
            enough = not _run("scontrol", "update", f"JobId={self.id}", f"ExcNodeList={avoided}").returncode
        _run("scontrol", "update", f"JobId={self.id}", "StartTime=now")
        return enough

    def cancel(self) -> None:
        """Cancel the job."""
        _run("scancel", "--quiet", self.id)


def refuse_unwritable(words: Sequence[str], roots: Mapping[str, str]) -> None:
    """Check that the job can write its log, checkpoints and control files; words: as for OwnJob.

    Raises:
        UsageError: a folder is not writable.
    """
    for variable, what in ((environment.CONTROL_ROOT, "control files"), (environment.CHECKPOINT_ROOT, "checkpoints")):
        if not _is_writable(Path(roots[variable])):
            raise UsageError(
                f"{roots[variable]} is not writable, and the job's {what} go there: set {variable} to a folder of yours"
            )
    if not _is_writable(Path.cwd()) and not _has_output(words):
        raise UsageError(
            f"{Path.cwd()} is not writable, and the job's log goes there: use another folder, or --output=FILE"
        )


def _is_writable(folder: Path) -> bool:
    """Return whether a folder is writable, or can be created."""
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
    """Return whether a Slurm answers on this machine."""
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
