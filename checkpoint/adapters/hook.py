"""A program in any language that saves to files of its own when it gets a signal, and reads them when it starts.

    python3 -m tiresias.checkpoint.adapters.hook --signal USR1 --file 'state*.dat' -- ./simulate input.txt

In the program's working folder. Before it starts, the files of the newest good checkpoint are put in their places. When the job
is preempted, the program gets its signal; once its files have changed and it has ended, or left them alone for QUIET seconds,
they are committed and the program is ended. What it saves at other times is committed too. A program that first writes a file
under another name and then renames it is never caught half way.

The job counts as able to save once the program, or a process that it started (srun passes signals on), handles the signal.
Standard library only.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tiresias.checkpoint import Checkpoint, Checkpointer, SaveFailed, signals
from tiresias.checkpoint.adapters import packed_files
from tiresias.errors import TiresiasError, UsageError
from tiresias.protocol.job_log import log_line

POLL_S = 0.1  # between polls of the program and its files
QUIET = 2.0  # seconds without a change after which files of a program that runs on count as whole
GRACE = 2.0  # seconds for a program to end by SIGTERM once its files are committed
ASIDE = ".set-aside"


class Hook:
    """Runs a program that saves by itself, and commits its files as checkpoints.

    Args:
        checkpointer: Saves and restores the files.
        folder: The program's working folder.
        patterns: Patterns of its checkpoint files there.
        number: The signal that makes the program save.
    """

    def __init__(self, checkpointer: Checkpointer, folder: Path, patterns: list[str], number: int) -> None:
        self._checkpointer, self._folder, self._patterns, self._number = checkpointer, folder, patterns, number
        self._step = 0  # a save of the program is a step
        checkpointer.register_alone()
        self._asked = False

    def run(self, command: list[str]) -> int:
        """The program's exit code; does not return when the job is to be requeued. Raises OSError where it does not start."""
        self._put_back(self._checkpointer.restore())
        self._committed = self._seen = self._marks()
        self._changed = time.monotonic()
        self._program = subprocess.Popen(command, cwd=self._folder)
        while (code := self._program.poll()) is None:
            self._look()
            time.sleep(POLL_S)
        if self._asked and self._marks() != self._committed and self._commit():
            self._checkpointer.exit_for_requeue()
        return code if code >= 0 else 128 - code

    def _look(self) -> None:
        if not self._asked and (able := self._able()) and self._checkpointer.should_stop(self._step):
            self._asked = True
            for pid in able:
                with suppress(OSError):
                    os.kill(pid, self._number)
        if self._quiet() and self._commit() and self._asked:
            self._end()
            self._checkpointer.exit_for_requeue()

    # the program's files

    def _marks(self) -> dict[Path, packed_files.FileState]:
        found = {path for pattern in self._patterns for path in self._folder.glob(pattern) if path.is_file()}
        return packed_files.file_states(self._folder, sorted(path.relative_to(self._folder) for path in found))

    def _quiet(self) -> bool:
        """There is something new, and it has been left alone."""
        now, marks = time.monotonic(), self._marks()
        if marks != self._seen:
            self._seen, self._changed = marks, now
        return bool(marks) and marks != self._committed and now - self._changed >= QUIET

    def _commit(self) -> bool:
        marks = self._marks()
        try:
            self._checkpointer.save(self._step + 1, packed_files.pack(self._folder, marks))
        except SaveFailed as error:
            log_line(str(error))
            self._changed = time.monotonic()  # again after the next quiet time
            return False
        self._step, self._committed = self._step + 1, marks
        return True

    def _put_back(self, found: Checkpoint | None) -> None:
        """What the program wrote after its last commit may be half a file: it is kept, but out of the program's sight."""
        if found is None:
            return
        self._step = found.step
        aside = self._folder / ASIDE
        for path in self._marks():
            (aside / path).parent.mkdir(parents=True, exist_ok=True)
            (self._folder / path).replace(aside / path)
        packed_files.unpack(found.state, self._folder)

    # the program

    def _able(self) -> list[int]:
        """The program and its descendants that handle the signal: any other would die of it."""
        return [pid for pid in _family(self._program.pid) if _handles(pid, self._number)]

    def _end(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in [*_family(self._program.pid)]:
                with suppress(OSError):
                    os.kill(pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._program.wait(GRACE)
                return


def _family(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _family(int(child))


def _handles(pid: int, number: int) -> bool:
    """From the mask of caught signals, proc(5)."""
    try:
        found = re.search(r"^SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return False
    return found is not None and int(found[1], 16) >> (number - 1) & 1 == 1


def main(argv: list[str] | None = None) -> int:
    """Run a program; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="tiresias.checkpoint.adapters.hook",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--file", action="append", required=True, metavar="PATTERN", help="may be given several times")
    parser.add_argument("--signal", default="USR1", help="what makes the program save (default: USR1)")
    parser.add_argument("command", nargs="+", metavar="PROGRAM", help="after --, with its arguments")
    args = parser.parse_args(argv)
    try:
        return _run(args.file, args.signal, args.command)
    except TiresiasError as error:
        print(f"tiresias: {error}", file=sys.stderr)
        return error.exit_code


def _run(patterns: list[str], name: str, command: list[str]) -> int:
    checkpointer = Checkpointer.from_env()
    if checkpointer.world.size > 1:
        raise UsageError("one hook a job: start it in the batch script, before srun, not by srun")
    try:
        return Hook(checkpointer, Path.cwd(), patterns, signals.number(name)).run(command)
    except OSError as error:
        raise TiresiasError(f"{error.filename or command[0]}: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(main())
