"""Images by DMTCP: its coordinator of one run, and the commands of DMTCP that use it.

The coordinator listens on the loopback, on a port that the kernel chooses: the listening socket is opened here, and the coordinator
inherits it under the number at which it looks for one.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tiresias.wrappers.images import mapped_processes
from tiresias.wrappers.images.image_place import ImagePlace, ProgramLost

PROGRAMS = ("dmtcp_launch", "dmtcp_coordinator", "dmtcp_command", "dmtcp_restart")
HOST = "127.0.0.1"
LISTENER = 821  # the descriptor that the coordinator listens on where it is open (DMTCP's include/protectedfds.h)
COMMAND_TIMEOUT_S = 30.0
SUFFIX = ".dmtcp"  # of a process's image
POLL_S = 0.05
REPEAT_S = 20.0  # between two requests to DMTCP, as long as the processes run
STALLED_S = 60.0  # without a byte written to the image
END_TIMEOUT_S = 5.0  # from the end of the last process until DMTCP has reported a complete image
SCRIPT = "dmtcp_restart_script.sh"  # the coordinator writes it once all processes have written their images
_VERSION = re.compile(r"\(DMTCP\) (\S+)")
_PEERS = re.compile(r"NUM_PEERS=(\d+)")
_PID = re.compile(r"^\d+, .*\[\d+:(\d+)\]@", re.MULTILINE)  # 1, bash[40000:3086]@node, ...


class DmtcpPlace(ImagePlace):
    """A run under DMTCP. address: the port of the coordinator."""

    TOOL, INSTALL = "dmtcp", "install DMTCP 4 on the nodes or load its module before tsbatch (docs/how-to/dmtcp.md)"
    SAME_FOLDER = True  # DMTCP finds copies of deleted files in the folder of the dump
    CUTS_FILES = True
    OWN_BYTES = 16 << 20  # a shared mapping: where it cannot grow, the program gets SIGBUS
    FAILED_CODE = 99

    @classmethod
    def version(cls) -> str:
        """Return the version, "" where DMTCP is not in PATH."""
        with suppress(OSError, subprocess.SubprocessError):
            version = _VERSION.search(_output(["dmtcp_launch", "--version"]).stdout)
            return version[1] if version else ""
        return ""

    @classmethod
    def missing(cls) -> str:
        """Return which program of DMTCP is not in PATH, "" where all are."""
        name = next((name for name in PROGRAMS if not shutil.which(name)), "")
        return name and f"{name} is not in PATH"

    @property
    def script(self) -> Path:
        """The file that proves a complete image."""
        return self.folder / SCRIPT

    def start(self) -> int:
        """Start the coordinator; return its process id. Raises OSError."""
        with socket.socket() as listener:
            listener.bind((HOST, 0))
            listener.listen(128)
            self.address = str(listener.getsockname()[1])
            self.images.mkdir(mode=0o700, exist_ok=True)
            nothing = os.open(os.devnull, os.O_RDWR)
            try:
                actions = [
                    (os.POSIX_SPAWN_DUP2, listener.fileno(), LISTENER),
                    *((os.POSIX_SPAWN_DUP2, nothing, number) for number in (0, 1, 2)),
                ]
                folder = str(self.folder)
                words = ["dmtcp_coordinator", "-q", "-q", "--ckptdir", folder]
                env = {**os.environ, "DMTCP_TMPDIR": folder}  # it ignores --tmpdir
                return os.posix_spawnp(words[0], words, env, file_actions=actions, setpgroup=0, setsigmask=())
            finally:
                os.close(nothing)

    def launch(self, words: Sequence[str]) -> list[str]:
        """Return the command that starts a program so that it can be dumped."""
        return [*self._command_of("dmtcp_launch"), "--ckptdir", str(self.images), "--no-gzip", *words]

    def restart(self) -> list[str]:
        """Return the command that becomes the restored program."""
        return [*self._command_of("dmtcp_restart"), *map(str, sorted(self.images.glob(f"*{SUFFIX}")))]

    def dump(self) -> str:
        """Dump the program, which ends with its image; return "" for a complete image, or why it is none."""
        shutil.rmtree(self.images)
        self.images.mkdir(mode=0o700)
        for path in self.folder.glob("dmtcp_restart_script*"):
            path.unlink(missing_ok=True)
        requested = ended = 0.0
        written, grown = 0, time.monotonic()
        while not self.is_complete():
            now = time.monotonic()
            if now - requested > REPEAT_S and self.running():
                requested = now
                self._request()
            ended = 0.0 if self.pids() else ended or now
            if ended and now - ended > END_TIMEOUT_S and not self.is_complete():
                return "the program ended during the dump, or DMTCP could not write its image"
            if (size := self._written()) != written:
                written, grown = size, now
            if now - grown > STALLED_S:
                self._give_up()
            time.sleep(POLL_S)
        return ""

    def why_not(self, pids: list[int]) -> str:
        """Return which process is stopped: DMTCP would wait for it, with all others stopped, too."""
        pid = mapped_processes.stopped(pids)
        return f"process {pid} is stopped (SIGSTOP), and DMTCP cannot dump it: send it SIGCONT" if pid else ""

    def is_complete(self) -> bool:
        """Whether all processes have written their images."""
        return self.script.exists()

    def running(self) -> bool:
        """Whether processes run under the coordinator, False while they are launched, dumped or restored."""
        with suppress(OSError, subprocess.SubprocessError):
            status = self._command("--status").stdout
            found = _PEERS.search(status)
            return bool(found and int(found[1])) and "RUNNING=yes" in status
        return False

    def pids(self) -> list[int]:
        """Return the ids of the processes under the coordinator. (A restored one does not show its environment in /proc.)"""
        with suppress(OSError, subprocess.SubprocessError):
            return [int(pid) for pid in _PID.findall(self._command("--list").stdout)]
        return []

    def end(self) -> None:
        """End the program; where the image is complete, it has ended."""
        for pid in self.pids():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def resume(self) -> bool:
        """Return False: the program has ended with its image."""
        return False

    @property
    def _coordinator(self) -> list[str]:
        return ["--coord-host", HOST, "--coord-port", self.address]

    def _command_of(self, program: str) -> list[str]:
        folder = ["--tmpdir", str(self.folder)]
        return [program, "-q", "-q", "--join-coordinator", *self._coordinator, *folder]

    def _written(self) -> int:
        return sum(path.stat().st_size for path in self.images.glob(f"*{SUFFIX}*") if path.is_file())

    def _give_up(self) -> None:
        self.end()
        raise ProgramLost(f"DMTCP has written nothing for {STALLED_S:g} s")

    def _request(self) -> None:
        """Request an image of all processes. (DMTCP 4.2 returns 1 although it makes the image.)"""
        with suppress(OSError, subprocess.SubprocessError):
            self._command("--kcheckpoint")

    def _command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return _output(["dmtcp_command", *self._coordinator, *words])


def _output(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )


PLACE = DmtcpPlace
