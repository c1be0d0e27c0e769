"""What the supervisor passes to the processes that it starts for an image, and their report to the controller."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import later_runs, versions
from tiresias.wrappers.images import image_place
from tiresias.wrappers.images.image_place import ImagePlace

WORDS = 6  # of a run on a command line
RESTORED = "restored"  # a file in the folder of the run


class ImageJob(NamedTuple):
    """One run.

    Attributes:
        place: Where it is dumped.
        checkpoints: The folder of the job's store.
        control: The job's control folder.
        restart: Slurm's restart count of this run.
    """

    place: ImagePlace
    checkpoints: Path
    control: Path
    restart: int

    def words(self) -> list[str]:
        """Return it as words of a command line."""
        return [
            self.place.TOOL,
            str(self.place.folder),
            self.place.address,
            str(self.checkpoints),
            str(self.control),
            str(self.restart),
        ]

    @property
    def step(self) -> int:
        """The image that this run was restored from, 0: none, it began from the beginning."""
        with suppress(OSError, ValueError):
            return int((self.place.folder / RESTORED).read_text(encoding="ascii"))
        return 0

    def note_restore(self, step: int) -> None:
        """Note the image that this run is restored from. Raises OSError."""
        (self.place.folder / RESTORED).write_text(str(step), encoding="ascii")

    def register(self, ready: bool, newest: int, **measured: float) -> None:
        """Report to the controller whether the program can be dumped, and the newest image (0: none). Raises OSError."""
        step = self.step
        content = {
            "restart": self.restart,
            versions.KEY: versions.OWN,
            "ready": ready,
            "step": newest or -1,
            "requeue": False,
            "resumed": step,
            "at": step,
            "alone": True,
            **({"ready_at": time.time()} if ready else {}),
            **measured,
        }
        later_runs.write_program(self.control, content, self.restart, later_runs.start_time(os.environ))


def of_words(words: Sequence[str]) -> ImageJob:
    """Return the run of a command line's words."""
    tool, folder, address, checkpoints, control_folder, restart = words[:WORDS]
    place = image_place.kind(tool)(Path(folder), address)
    return ImageJob(place, Path(checkpoints), Path(control_folder), int(restart))
