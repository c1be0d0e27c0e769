"""A process beside the user's script that reads the job's output and reports the steps which the program prints.

    steps_follower PATTERN CONTROL_FOLDER RESTART       standard output and standard error: those of the job

It is a process of its own, since a regular expression may search for ever: a search is interrupted after SEARCH_S, and then the
process ends with a line in the log. The supervisor kills it when the script ends. What a job writes faster than can be read is
skipped, up to its newest part. A file that was truncated is read from its beginning; one that was renamed is the one that the job
still writes to.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import sys
import time
from pathlib import Path
from typing import NoReturn

from tiresias.errors import UsageError
from tiresias.protocol import progress
from tiresias.protocol.job_log import log_line
from tiresias.wrappers import printed_steps

POLL_S = 1.0  # between two reads of the output
SEARCH_S = 1.0  # for all lines of one read
NEWEST = 64 * 1024  # bytes of one read
_LINE_ENDS = re.compile(rb"[\r\n]+")  # progress bars end their lines with a carriage return


class Output:
    """One of the job's output files, read from its present end.

    Args:
        descriptor: An open file of this process.

    Raises:
        OSError: It cannot be read.
    """

    def __init__(self, descriptor: int) -> None:
        self._file = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        self._at = os.fstat(self._file).st_size
        self._rest = b""

    def lines(self) -> list[str]:
        """Return the newest complete lines since the last call. Raises OSError."""
        size = os.fstat(self._file).st_size
        if size < self._at:
            self._at, self._rest = 0, b""
        if skips := size - self._at > NEWEST:
            self._at, self._rest = size - NEWEST, b""
        found = os.pread(self._file, NEWEST, self._at)
        self._at += len(found)
        *whole, self._rest = _LINE_ENDS.split(self._rest + found)
        self._rest = self._rest[:NEWEST]
        return [line.decode(errors="replace") for line in whole[skips:]]  # not the end of a line without its beginning


class Follower:
    """Reports the steps that the newest line with the pattern states.

    Args:
        pattern: A valid pattern.
        folder: The job's control folder.
        restart: Slurm's restart count.
    """

    def __init__(self, pattern: str, folder: Path, restart: int) -> None:
        self._pattern, self._folder, self._restart = re.compile(pattern), folder, restart
        self._step = -1

    def read(self, lines: list[str]) -> None:
        """Report the newest step of these lines where it is larger than the last one. Raises OSError and TooSlow."""
        signal.setitimer(signal.ITIMER_REAL, SEARCH_S)
        try:
            found = next((one for line in reversed(lines) if (one := printed_steps.steps(self._pattern, line))), None)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        if found and found[0] > self._step:
            self._step = found[0]
            progress.write(self._folder, progress.Progress(self._restart, *found))


class TooSlow(Exception):
    """A search took too long."""


def _interrupt(*_: object) -> NoReturn:
    """Python's regular expressions poll for signals while they search."""
    raise TooSlow


def outputs() -> list[Output]:
    """Return the job's standard output, and its standard error where that is another file; only files."""
    files = [os.fstat(descriptor) for descriptor in (1, 2)]
    same = (files[0].st_dev, files[0].st_ino) == (files[1].st_dev, files[1].st_ino)
    some = [descriptor for descriptor, file in enumerate(files[: 1 if same else 2], 1) if stat.S_ISREG(file.st_mode)]
    return [Output(descriptor) for descriptor in some]


def main(pattern: str, folder: str, restart: str) -> None:
    """Follow until the parent ends, a search takes too long or the output cannot be read. The job continues in each case."""
    signal.signal(signal.SIGALRM, _interrupt)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    parent = os.getppid()
    try:
        printed_steps.check(pattern)  # a job that plain sbatch submitted has the variable as it is
        follower = Follower(pattern, Path(folder), int(restart))
        if not (files := outputs()):
            log_line(f"{printed_steps.OPTION}: the job's output is no file: no progress is reported")
        while files and os.getppid() == parent:
            for file in files:
                follower.read(file.lines())
            time.sleep(POLL_S)
    except UsageError as error:
        log_line(str(error))
    except TooSlow:
        log_line(f"{printed_steps.OPTION}: a search took more than {SEARCH_S:g} s: no further progress is reported")
    except OSError as error:
        log_line(f"{printed_steps.OPTION}: {error.strerror}: no further progress is reported")


if __name__ == "__main__":
    main(*sys.argv[1:])
