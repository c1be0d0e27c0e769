"""Whether the other ranks of a launch still live, as far as can be seen from here: those of this node.

Each rank leaves its host, pid and start time in the launch's folder, and takes them away when it ends by itself. A rank of another
node counts as alive: Slurm decides whether that node still exists.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
from pathlib import Path

from tiresias.checkpoint.world import World
from tiresias.errors import CorruptCheckpoint
from tiresias.protocol import files
from tiresias.protocol.process_identity import start_ticks

_ABOUT = re.compile(r"(\S+) ([0-9]{1,10}) ([0-9]{1,20})", re.ASCII)


class Peers:
    """Raises OSError where `folder` cannot be written to."""

    def __init__(self, folder: Path, world: World) -> None:
        self._folder, self._world = folder, world
        about = f"{_host()} {os.getpid()} {start_ticks(os.getpid())}"
        with files.open_folder(folder) as handle:
            files.write_synced(handle, f"rank-{world.rank}", about.encode())
        atexit.register(self._leave, os.getpid())

    def _leave(self, pid: int) -> None:
        """Not in a forked worker, and not after an uncaught error: the others must detect that."""
        if pid == os.getpid() and not hasattr(sys, "last_value"):
            files.remove_flat(self._folder / f"rank-{self._world.rank}")

    def dead(self) -> int | None:
        """A rank of this node that was killed or failed; None: none is known of."""
        return next((rank for rank in range(self._world.size) if rank != self._world.rank and self.ended(rank)), None)

    def ended(self, rank: int) -> bool:
        """Whether it is known to have."""
        try:
            with files.open_folder(self._folder) as handle:
                found = _ABOUT.fullmatch(files.read_small(handle, f"rank-{rank}", 1024).decode(errors="replace"))
        except (CorruptCheckpoint, OSError):
            return False  # not there yet
        return found is not None and found[1] == _host() and start_ticks(int(found[2])) != int(found[3])


def _host() -> str:
    return os.uname().nodename
