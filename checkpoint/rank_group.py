"""The folder that the ranks of one launch share: they find each other in it, publish what was restored, and agree when to stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tiresias.checkpoint.agreement import Agreement
from tiresias.checkpoint.peers import Peers
from tiresias.checkpoint.world import World
from tiresias.errors import TiresiasError
from tiresias.protocol import files

Wait = Callable[[Callable[[], Any], str], Any]  # Store.wait
_RESTORED = "restored"


class Agrees(Protocol):
    """How ranks agree on the step at which they all stop."""

    def stops_at(self, step: int, requested: bool) -> bool:
        """Whether to stop at `step`. All ranks call it with the same sequence of steps and get the first True at the same one."""
        ...


class Alone:
    """A single rank: it stops on request."""

    def dead(self) -> int | None:
        """Return None: there is no other rank."""
        return None

    def stops_at(self, step: int, requested: bool) -> bool:
        """Whether to stop at `step`."""
        return requested

    def publish(self, step: int, error: str = "") -> None:
        """Do nothing: no other rank waits for it."""

    def published(self, wait: Wait) -> int:
        """Return -1: there is no rank 0 to wait for."""
        return -1


class Launch:
    """Several ranks. folder: the launch's own, on the shared file system; made if need be. Raises OSError."""

    def __init__(self, folder: Path, world: World) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        peers = Peers(folder, world)
        self.dead = peers.dead
        self.stops_at = Agreement(folder, world, peers.ended).stops_at

    def publish(self, step: int, error: str = "") -> None:
        """Rank 0: what it restored (-1: nothing), or why it could not. Raises OSError."""
        with files.open_folder(self._folder) as folder:
            files.write_synced(folder, _RESTORED, json.dumps({"step": step, "error": error}).encode())

    def published(self, wait: Wait) -> int:
        """Other ranks: the step that rank 0 restored. Raises TiresiasError as rank 0 did, and what `wait` raises."""
        wait(lambda: files.is_there(self._folder / _RESTORED) or None, "rank 0's restore")
        with files.open_folder(self._folder) as folder:
            found = json.loads(files.read_small(folder, _RESTORED, 65536))
        if found["error"]:
            raise TiresiasError(found["error"])
        return int(found["step"])
