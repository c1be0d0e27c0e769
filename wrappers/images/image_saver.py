"""The supervisor's part for a job that is saved as an image of its processes.

It starts the program under the image tool (image_place.py), or restores it from the newest image; at the checkpoint signal or near
the time limit it starts the process that dumps and commits (dump.py). The script is kept in the job's control folder: a restored
shell opens it by its path.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from tiresias.protocol import control, environment
from tiresias.protocol.files import own_folder
from tiresias.protocol.job_log import log_line
from tiresias.wrappers import isolated
from tiresias.wrappers.images import dump, image_place, option
from tiresias.wrappers.images.image_job import ImageJob
from tiresias.wrappers.images.image_place import ImagePlace
from tiresias.wrappers.job import Job
from tiresias.wrappers.outside_save import OutsideSave

SCRIPT = "slurm_script"  # in the control folder
WAIT_S = 0.05


class ImageSaver(OutsideSave):
    """Images of one job's program.

    Args:
        job: The run, with both folders.
        tool: The class of the image tool.
        script: The user's script, as it was taken out of the batch script.
    """

    def __init__(self, job: Job, control_folder: Path, checkpoints: Path, script: Path, tool: type[ImagePlace]) -> None:
        self._job, self._tool = job, tool
        self._control, self._checkpoints, self._script = control_folder, checkpoints, script
        self._folder = folder_on_node(job)
        self._run: ImageJob | None = None
        self._beside = self._watch = self._dump = 0  # process ids
        self._dump_code: int | None = None
        self._asked_at = 0.0
        self._newest = 0

    def begin(self) -> None:
        """Start what the tool needs beside the program. Raises OSError where the program cannot be launched under it."""
        self._end_processes()
        _clear(self._folder, keep_images=self.stays)
        place = self._tool(self._folder)
        self._beside = place.start()
        self._newest = max([0, *_steps(self._checkpoints)])
        self._dump, self._dump_code, self.stays = 0, None, False
        self._run = ImageJob(place, self._checkpoints, self._control, self._job.restart)
        self._run.register(False, self._newest)
        self._watch = _start("image_watch", self._run.words())

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command that launches the script under the tool, or restores it."""
        run = self._current()
        kept = self._keep_script()
        launch = run.place.launch([str(kept) if word == str(self._script) else word for word in words])
        if self._newest or run.place.has_image():
            return isolated.command("tiresias.wrappers.images.restore", *run.words(), *launch)
        return launch

    def child_env(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the script's environment, without the choice, and without the folder that holds the images."""
        left_out = {environment.CHECKPOINT, environment.CHECKPOINT_DIR}
        return {name: value for name, value in env.items() if name not in left_out and not name.startswith("DMTCP_")}

    def ask(self) -> str:
        """Start the dump; return a message for the log."""
        self._asked_at, self._dump_code = time.monotonic(), None
        self._dump = _start("dump", self._current().words(), blocked=[dump.PROGRAM_ENDED])
        return "an image of the program is dumped"

    def has_left(self) -> bool:
        """Whether the image is committed."""
        return self._dump_ended() == dump.COMMITTED

    def has_failed(self) -> bool:
        """Whether there is no image, and the script runs on."""
        return self._dump_ended() == dump.RUNS_ON

    def step_after(self, code: int) -> int | None:
        """The script has ended: wait for the commit of its image; the image that the job is requeued with."""
        if self._dump and self._dump_ended() is None:
            os.kill(self._dump, dump.PROGRAM_ENDED)
        while (ended := self._dump_ended()) is None:
            time.sleep(WAIT_S)
        steps = _steps(self._checkpoints)
        if ended == dump.COMMITTED:
            self.result = f"dumped image {steps[0]}"
            return steps[0]
        self.stays = ended == dump.NOT_COMMITTED
        if ended == dump.LOST or (ended == dump.ENDED and code == self._tool.FAILED_CODE):
            self.result = f"ended in a dump that failed: it goes back to {self._words(steps)}"
            return steps[0] if steps else -1
        return None

    def late_words(self) -> str:
        """Describe an image that is not complete in time."""
        seconds = time.monotonic() - self._asked_at
        images = self._current().place.images
        written = sum(path.stat().st_size for path in images.rglob("*") if path.is_file())
        return (
            f"the image is not committed {seconds:.0f} s after the request; {written >> 20} MiB are on the node. If Slurm ends the "
            f"job before the commit, it goes back to {self._words(_steps(self._checkpoints))}"
        )

    def ended_words(self) -> str:
        """Describe a job that was dumped and must not be requeued."""
        return f"{self.result} in {self._checkpoints}. The job ends here: it was submitted with --no-requeue."

    def listed(self) -> str:
        """Describe the images."""
        return f"it goes back to {self._words(_steps(self._checkpoints))} where it is requeued; images are in {self._checkpoints}"

    def source(self) -> str:
        """Describe what the next run starts from."""
        return self._words(_steps(self._checkpoints))

    def close(self) -> None:
        """End the processes of the run and remove its folder."""
        self._end_processes()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end_processes(self) -> None:
        for pid in filter(None, (self._watch, self._dump if self._dump_code is None else 0, self._beside)):
            _stop(pid)
        self._watch = self._dump = self._beside = 0

    def _current(self) -> ImageJob:
        assert self._run is not None
        return self._run

    def _dump_ended(self) -> int | None:
        """Return the exit code of the dump, None while it runs or where none was asked for."""
        if self._dump and self._dump_code is None:
            pid, status = os.waitpid(self._dump, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if pid else None
            self._dump_code = code if code is None or code in dump.CODES else self._dump_died(code)
        return self._dump_code if self._dump else dump.ENDED

    def _dump_died(self, code: int) -> int:
        """Return the code of a dump that another process, such as the kernel without memory, has ended."""
        with suppress(OSError):
            os.killpg(self._dump, signal.SIGKILL)  # CRIU, which lets the program continue then
        place = self._current().place
        if place.resume() or place.running():
            log_line(f"the dump ended with status {code}, and the script runs on")
            return dump.RUNS_ON
        place.end()
        log_line(f"the dump ended with status {code}, and the program with it")
        return dump.NOT_COMMITTED if place.is_complete() else dump.LOST

    def _keep_script(self) -> Path:
        """Keep the script where each node finds it under the same path. Raises OSError."""
        folder = self._control / control.IMAGE
        folder.mkdir(mode=0o700, exist_ok=True)
        kept = folder / SCRIPT
        if not kept.exists():
            temporary = folder / f".{SCRIPT}.{os.getpid()}"
            temporary.write_bytes(self._script.read_bytes())
            temporary.chmod(0o700)
            temporary.replace(kept)
        return kept

    def _words(self, steps: list[int]) -> str:
        return f"image {steps[0]}" if steps else "its beginning, as there is no image"


def make(job: Job, script: Path) -> ImageSaver | None:
    """Return the saver of a job; None where it cannot be dumped, and the log states why.

    Raises:
        OSError: The job has images, and they cannot be restored here: running the script would begin from its beginning.
    """
    if job.control is None or job.checkpoints is None:
        return None
    tool = image_place.kind(os.environ[environment.CHECKPOINT])
    if problem := _why_not(tool):
        if _steps(job.checkpoints):
            raise OSError(0, f"the image in {job.checkpoints} is not restored: {problem}")
        log_line(f"{option.NOT_PREEMPTED}{problem}")
        return None
    return ImageSaver(job, job.control, job.checkpoints, script, tool)


def _why_not(tool: type[ImagePlace]) -> str:
    """Return why the tool cannot start a program on this node, "" where it can."""
    node = os.uname().nodename
    if reason := tool.missing():
        return f"{reason} on {node}: {tool.INSTALL}"
    folder = _temporary_folder()
    if (free := shutil.disk_usage(folder).free) < tool.OWN_BYTES:
        needed = f"{option.TOOLS[tool.TOOL]} needs {tool.OWN_BYTES >> 20} MiB of {folder} on {node}, which"
        return f"{needed} has {free >> 20} MiB: set TMPDIR to a larger folder of the node"
    return ""


def _temporary_folder() -> Path:
    return Path(os.environ.get("TMPDIR") or "/tmp")


def _steps(checkpoints: Path) -> list[int]:
    from tiresias.checkpoint.store import Store
    from tiresias.errors import TiresiasError

    with suppress(TiresiasError):
        return Store(checkpoints).steps()
    return []


def folder_on_node(job: Job) -> Path:
    """Return the folder of a job's run, the same in all runs: DMTCP notes it in an image."""
    number = job.submission or f"{crc32(os.fsencode(str(job.control))):08x}"
    return _temporary_folder() / f"tiresias-image-{job.id}-{number}"


def _clear(folder: Path, keep_images: bool) -> None:
    """Make the folder anew, for its owner alone. Raises OSError, also where it belongs to another user."""
    own_folder(folder, 0o700)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            if not (keep_images and path.name == image_place.IMAGES):
                shutil.rmtree(path)
        else:
            path.unlink()


def _stop(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _start(module: str, words: Sequence[str], blocked: Sequence[int] = ()) -> int:
    command = isolated.command(f"tiresias.wrappers.images.{module}", *words)
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, nothing, 0), (os.POSIX_SPAWN_DUP2, nothing, 1)]
        return os.posix_spawn(
            command[0],
            command,
            os.environ,
            file_actions=actions,
            setpgroup=0,
            setsigmask=blocked,
            setsigdef=[signal.SIGPIPE],
        )
    finally:
        os.close(nothing)
