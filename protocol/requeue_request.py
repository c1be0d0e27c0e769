"""How a program that saves by itself asks its supervisor for the requeue, instead of Slurm, and how it declines one.

While the supervisor has a run save (the stop file of control.py is there), a file in the job's control folder stands for
`scontrol requeue`, which some frameworks call by themselves after they have saved:

    requeue-asked-<restart>      the program has saved: requeue the job
    final-<restart>              the program has ended its work: do not requeue the job

Standard library only.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tiresias.protocol import control, environment

WAIT_S = 60.0  # for the supervisor, which ends a program that has asked: no step is trained after the save


class Requests:
    """The requests of one run. folder: the job's control folder; restart: Slurm's restart count of the run."""

    def __init__(self, folder: Path, restart: int) -> None:
        self._stop = control.stop_file(folder, restart)
        self.asked, self.final = folder / f"requeue-asked-{restart}", folder / f"final-{restart}"

    @property
    def is_saving(self) -> bool:
        """Whether the supervisor has asked this run to save."""
        return self._stop.exists()

    def ask(self) -> bool:
        """Ask for the requeue and wait to be ended. False: the request cannot be made, or the supervisor did not answer it."""
        with suppress(OSError):
            self.asked.touch()
            time.sleep(WAIT_S)
        return False

    def decline(self) -> None:
        """Decline the requeue: the job ends with this run."""
        with suppress(OSError):
            self.final.touch()


def from_env(env: Mapping[str, str] = os.environ) -> Requests | None:
    """Of the run that this process belongs to; None outside of a job of tsbatch."""
    folder, restart = env.get(environment.CONTROL), env.get(environment.RESTART, "")
    if not folder or not re.fullmatch("[0-9]{1,9}", restart, re.ASCII):
        return None
    return Requests(Path(folder), int(restart))
