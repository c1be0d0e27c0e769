"""Images by CRIU, in a user namespace of the run (criu_program.py, namespaces.py)."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tiresias.protocol.job_log import log_line
from tiresias.wrappers import isolated
from tiresias.wrappers.images import cuda_state, mapped_processes
from tiresias.wrappers.images.image_place import ImagePlace, ProgramLost

OLDEST = (4, 0)
FIRST = "first_process"  # a file in the folder: the first process of the run's namespace, as the node numbers it
LOG = "criu.log"
GPUS = "gpus.json"  # in the folder of images, where processes use GPUs
SEARCHED = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # after PATH
_MODULE = "tiresias.wrappers.images.criu_program"
_VERSION = re.compile(r"Version: (\d+)\.(\d+)\S*")
_ERROR = re.compile(r"^.*Error \([^)]*\): *(.+)$", re.MULTILINE)
TIMEOUT_S = 30.0


class CriuPlace(ImagePlace):
    """A run that CRIU can dump."""

    TOOL = "criu"
    INSTALL = "install CRIU 4 on the nodes, and allow user namespaces (docs/how-to/dmtcp.md)"

    @classmethod
    def version(cls) -> str:
        """Return the version, "" where criu is not installed."""
        version = _VERSION.search(_output([found, "--version"])) if (found := criu()) else None
        return version[0].partition(" ")[2] if version else ""

    @classmethod
    def missing(cls) -> str:
        """Return why CRIU does not work on this node, "" where it does."""
        found = criu()
        if not found:
            return "criu is not in PATH"
        version = _VERSION.search(_output([found, "--version"]))
        if not version or (int(version[1]), int(version[2])) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            return f"{found} is older than {oldest}: {version[0] if version else 'it prints no version'}"
        return _output(isolated.command(_MODULE, "/", "check")).strip()

    def start(self) -> int:
        """Make the folder of images. Raises OSError."""
        self.images.mkdir(mode=0o700, exist_ok=True)
        return 0

    def launch(self, words: Sequence[str]) -> list[str]:
        """Return the command that starts a program in namespaces of its own."""
        return isolated.command(_MODULE, str(self.folder), "launch", *words)

    def restart(self) -> list[str]:
        """Return the command that restores the program into new namespaces."""
        return isolated.command(_MODULE, str(self.folder), "restore")

    def running(self) -> bool:
        """Whether the program has been started or restored."""
        return bool(self.pids())

    def pids(self) -> list[int]:
        """Return the ids of the program's processes on the node."""
        return _descendants(self._first()) if self._first() else []

    def dump(self) -> str:
        """Dump the program and leave it stopped; return "" for a complete image, or why it is none. Raises ProgramLost."""
        shutil.rmtree(self.images)
        self.images.mkdir(mode=0o700)
        (self.folder / LOG).unlink(missing_ok=True)
        users = mapped_processes.gpu_users(self.pids())
        if users and (problem := cuda_state.suspend(users, self.images / GPUS)):
            return problem
        words = isolated.command(_MODULE, str(self.folder), "dump", str(self._first()))
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if not done.returncode:
            return ""
        problem = self.problem(done.stdout + done.stderr)
        if not self.resume_gpus(self.pids()):
            raise ProgramLost(f"{problem}; what it had on GPUs is lost")
        return problem

    def end(self) -> None:
        """End the program: its namespace ends with its first process."""
        if first := self._first():  # 0 would be the process group of this process
            with suppress(OSError):
                os.kill(first, signal.SIGKILL)

    def resume(self) -> bool:
        """Let the stopped program continue."""
        for pid in self.pids():
            with suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        return self.resume_gpus(self.pids())

    def gpu_problem(self) -> str:
        """Return why the driver cannot take the state of processes from GPUs, "" where it can."""
        return cuda_state.missing()

    def resume_gpus(self, pids: Sequence[int]) -> bool:
        """Give processes back what they had on GPUs; where that fails, end the program and return False."""
        if not (self.images / GPUS).exists() or not (problem := cuda_state.resume(pids, self.images / GPUS)):
            return True
        log_line(f"what the program had on GPUs is not given back to it: {problem}")
        self.end()
        return False

    def problem(self, otherwise: str) -> str:
        """Return the first error that CRIU has logged. otherwise: where it logged none."""
        with suppress(OSError):
            if found := _ERROR.search((self.folder / LOG).read_text(encoding="utf-8", errors="replace")):
                return f"criu: {found[1]}"
        return f"criu: {otherwise.strip()[-200:] or 'it was ended'}"

    def note_first(self, pid: int) -> None:
        """Note the first process of the namespace. Raises OSError."""
        temporary = self.folder / f".{FIRST}"
        temporary.write_text(str(pid), encoding="ascii")
        temporary.replace(self.folder / FIRST)

    def _first(self) -> int:
        with suppress(OSError, ValueError):
            return int((self.folder / FIRST).read_text(encoding="ascii"))
        return 0


def criu() -> str:
    """Return the path of CRIU, "" without one."""
    return shutil.which("criu", path=os.pathsep.join([os.environ.get("PATH", ""), *SEARCHED])) or ""


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (thread / "children").read_text(encoding="ascii").split()):
                found += [child, *_descendants(child)]
    return found


def _output(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return done.stdout or (done.stderr if done.returncode else "")


PLACE = CriuPlace
