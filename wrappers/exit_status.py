"""How the supervisor ends: as the user's script did, so that Slurm records the same exit code or signal (`0:9` in sacct).

A status is the script's exit code, or minus the number of the signal that ended it.
"""

from __future__ import annotations

import os
import re
import resource
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn

from tiresias.protocol import control, environment
from tiresias.protocol.job_log import log_line

FINAL_CODES = "93"  # where TIRESIAS_FINAL_CODES is unset


def status(ended: os.waitid_result) -> int:
    """Return the status of an ended child."""
    return int(ended.si_status) if ended.si_code == os.CLD_EXITED else -int(ended.si_status)


def exit_as(status: int) -> NoReturn:
    """End this process by the signal -`status`, without a core file, else with the exit code `status`."""
    if status < 0:
        _die_of(-status)
    os._exit(
        status if status >= 0 else 128 - status
    )  # nothing is buffered, and the interpreter's own end takes its time


def _die_of(number: int) -> None:
    """Returns where the signal does not end a process."""
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the script wrote its own
    with suppress(OSError, ValueError):  # of SIGKILL there is no handler
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


def final_codes(env: Mapping[str, str]) -> frozenset[int]:
    """The exit codes after which a job is neither requeued nor resumed: TIRESIAS_FINAL_CODES, such as 93,3, or none."""
    words = [word.strip() for word in (env.get(environment.FINAL_CODES) or FINAL_CODES).split(",")]
    numbers = [word for word in words if re.fullmatch("[0-9]{1,3}", word, re.ASCII)]
    if wrong := [word for word in words if word not in numbers and word != "none"]:
        log_line(f"TIRESIAS_FINAL_CODES: {wrong[0]!r:.40} is not an exit code and is ignored; use 93,3 or none")
    return frozenset(map(int, numbers)) - {0, control.EXIT_REQUEUE}
