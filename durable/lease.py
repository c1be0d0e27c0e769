"""The leader's lease: one line of JSON in the file `lease` of the lead folder. Only controllers read and write it."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass, fields
from pathlib import Path

FILE = "lease"
_MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Lease:
    """The content of the file.

    Attributes:
        epoch: Number of the leader's term; 0: no controller has led.
        host, pid: The leader's process.
        boot: Id of the running system of that host; containers on it share it. "" where unknown.
        beat: Counts the leader's writes; a lease that does not change is out of date.
        released: The leader has stepped down.
    """

    epoch: int = 0
    host: str = ""
    pid: int = 0
    boot: str = ""
    beat: int = 0
    released: bool = False

    def __str__(self) -> str:
        return f"{self.host} (pid {self.pid}, epoch {self.epoch})"


def read(path: Path) -> Lease:
    """Return the lease; one of epoch 0 where there is none, or its content is invalid. Raises OSError."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MAX_BYTES))
        lease = Lease(**found)
    except FileNotFoundError:
        return Lease()
    except (ValueError, TypeError, RecursionError):
        return Lease()
    is_valid = all(type(getattr(lease, one.name)) is type(one.default) for one in fields(Lease))
    return lease if is_valid else Lease()


def replace(path: Path, lease: Lease) -> None:
    """Replace the file as a whole. Raises OSError."""
    temporary = path.with_name(f".{path.name}-{socket.gethostname()}-{os.getpid()}")
    temporary.write_text(json.dumps(asdict(lease)))
    temporary.replace(path)


def boot_id() -> str:
    """Return an id that no other running system has; "" where it is unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
