"""How often a checkpoint was restored without a save after it: the file attempts.json of a store.

The first save after a restore removes the file: the program made progress.
"""

from __future__ import annotations

import os
from contextlib import suppress

from tiresias.checkpoint import manifest
from tiresias.checkpoint.root import Root
from tiresias.errors import CorruptCheckpoint
from tiresias.protocol import files
from tiresias.protocol.job_log import log_line

FILE = "attempts.json"


class Attempts:
    """The number of restores of the newest restored checkpoint.

    Args:
        folder: The folder of the store.
    """

    def __init__(self, folder: Root) -> None:
        self._folder = folder

    def of(self, step: int) -> int:
        """Return how often the checkpoint of `step` was restored; 0 where that is unknown."""
        try:
            with self._folder.open() as folder:
                noted = manifest.unseal(manifest.parse_object(files.read_small(folder, FILE, 4096), FILE), FILE)
            return manifest.whole(noted, "count", 10**6) if noted.get("step") == step else 0
        except (CorruptCheckpoint, OSError):
            return 0

    def add(self, step: int) -> None:
        """Count a restore of `step`; where that cannot be written the log states it."""
        try:
            with self._folder.open() as folder:
                noted = {"step": step, "count": self.of(step) + 1}
                files.write_synced(folder, FILE, manifest.seal(noted))
                os.fsync(folder)
        except OSError as error:
            log_line(f"{self._folder.path}: resume from step {step} could not be noted: {error.strerror}")

    def clear(self) -> None:
        """Forget all restores, after a save."""
        with suppress(OSError):
            (self._folder.path / FILE).unlink()
