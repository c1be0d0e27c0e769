"""The training processes on this node that registered for the checkpoint signal."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from tiresias.protocol.process_identity import NAME, start_ticks


def send(folder: Path, number: int) -> int:
    """Signal the registered processes of this node; how many there were. A pid that was reused is not one of them."""
    return sum(_send_one(name, number) for name in names(folder))


def staying(folder: Path, among: set[str]) -> tuple[int, int]:
    """Of these registered processes those that have not left: alive on this node; of other nodes, where no more is known."""
    found = [one for name in among.intersection(names(folder)) if (one := NAME.fullmatch(name))]
    here = [one for one in found if one["host"] == os.uname().nodename]
    return sum(start_ticks(int(one["pid"])) == int(one["ticks"]) for one in here), len(found) - len(here)


def names(folder: Path) -> list[str]:
    """Return the names of the registered processes, [] without the folder."""
    try:
        return [path.name for path in folder.iterdir() if NAME.fullmatch(path.name)]
    except OSError:
        return []


def _send_one(name: str, number: int) -> bool:
    found = NAME.fullmatch(name)
    if not found or found["host"] != os.uname().nodename:
        return False
    pid = int(found["pid"])
    with suppress(OSError):
        process = os.pidfd_open(pid)  # from here on the number cannot come to mean another process
        try:
            if start_ticks(pid) == int(found["ticks"]) and Path(f"/proc/{pid}").stat().st_uid == os.getuid():
                signal.pidfd_send_signal(process, number)
                return True
        finally:
            os.close(process)
    return False
