"""The report of a job's remote memory on one node: `memory/NODE.json` in its control folder (control.py).

A process with the rights of the job's owner writes it (services/remote_memory/job_swap), on each node of the job. One JSON object:

    {"protocol": [1, 2], "began": 1700000000.0, "time": 1700000060.0, "requested": 67108864, "out": 900, "in": 850, "donors": 700,
     "queue": 50, "disk": 100, "seconds": 1.5, "lent": {"node07:7600": 67108864}, "refused": ""}

A report is a claim of the job's owner, and read like the other files there. It only concerns the owner's job. A value outside of
its bounds makes the report invalid. Light imports only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from errno import ENOTDIR
from itertools import islice
from os import fstat, scandir
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from tiresias.errors import CorruptCheckpoint
from tiresias.protocol import control, versions
from tiresias.protocol.files import open_folder

NODE_FOLDER = "/run/tiresias/remote-memory"  # on each node; its default
REPORT, REFUSED, KEY = "report.json", "refused", "region.json"  # files of a job there
PAGE_BYTES = 4096
MOST_NODES = 1024  # whose reports are read
MOST_DONORS = 64  # in one report
LONGEST_REASON = 300
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DONOR = re.compile(r"[A-Za-z0-9\[][\][A-Za-z0-9.:_-]{0,119}")
_GIB = 1024.0
_PAGES = ("pages_out", "pages_in", "from_donors", "from_queue", "from_disk")
_COUNTS = {"requested": "requested", "pages_out": "out", "pages_in": "in"}
_SOURCES = {"from_donors": "donors", "from_queue": "queue", "from_disk": "disk"}


class RemoteMemoryUse(NamedTuple):
    """A report.

    Attributes:
        node: Slurm's name of the node, else how the host names itself.
        began: Epoch second at which the prolog requested it.
        time: Epoch second of the report.
        requested: Bytes on this node.
        pages_out, pages_in: Pages that the kernel has written and read, of PAGE_BYTES.
        from_donors, from_queue, from_disk: Where the pages that were read came from; those of the queue waited for the disk.
        seconds: For which reads and writes of pages lasted, the sum of all.
        lent: Bytes that each donor has lent, by its address.
        refused: Why the job has none here; "": it has.
    """

    node: str
    began: float = 0.0
    time: float = 0.0
    requested: int = 0
    pages_out: int = 0
    pages_in: int = 0
    from_donors: int = 0
    from_queue: int = 0
    from_disk: int = 0
    seconds: float = 0.0
    lent: Mapping[str, int] = {}
    refused: str = ""

    def stated(self) -> dict[str, Any]:
        """Return the content of the file."""
        counts = {key: getattr(self, name) for name, key in (_COUNTS | _SOURCES).items()}
        others = {"began": self.began, "time": self.time, "seconds": round(self.seconds, 3)}
        return {versions.KEY: versions.OWN, **others, **counts, "lent": dict(self.lent), "refused": self.refused}


def folder_of(run: Path, job: str) -> Path:
    """Return the folder on the node with the files of a job that its owner may read."""
    return run / "jobs" / job


def parsed(node: str, content: Mapping[str, Any]) -> RemoteMemoryUse | None:
    """Return a report; None where it is none."""
    counts = {name: control.integer(content.get(key)) for name, key in (_COUNTS | _SOURCES).items()}
    times = [_number(content.get(key)) for key in ("began", "time", "seconds")]
    lent, refused = content.get("lent"), content.get("refused")
    if min(counts.values()) < 0 or min(times) < 0 or not isinstance(refused, str) or not _are_donors(lent):
        return None
    return RemoteMemoryUse(
        node, times[0], times[1], seconds=times[2], lent=dict(lent), refused=_line(refused), **counts
    )


def write(folder: Path, use: RemoteMemoryUse) -> None:
    """Put a report into the job's control folder, in one rename. Raises OSError."""
    place = folder / control.MEMORY
    with suppress(FileExistsError):
        place.mkdir()
        place.chmod(0o755)
    if place.is_symlink():
        raise NotADirectoryError(ENOTDIR, "a link", str(place))
    control.write(place, f"{use.node}.json", use.stated())


def read_all(folder: Path, uid: int) -> list[RemoteMemoryUse]:
    """Return the reports of all nodes of a job, sorted by node.

    Args:
        folder: The job's control folder.
        uid: The job's owner.
    """
    found = []
    for name in _names(folder, uid):
        node = name.removesuffix(".json")
        if _NODE.fullmatch(node) and (use := parsed(node, control.read(folder / control.MEMORY / name, uid))):
            found.append(use)
    return sorted(found)


def size_words(mib: float) -> str:
    """Return a size with two or three digits that count."""
    if mib < _GIB:
        return f"{mib:,.0f} MiB"
    return f"{mib / _GIB:,.1f} GiB" if mib < 100 * _GIB and mib % _GIB else f"{mib / _GIB:,.0f} GiB"


def traffic_words(uses: Iterable[RemoteMemoryUse]) -> str:
    """Return how much a job has written and read on its nodes, from where, and how long that took."""
    with_it = [each for each in uses if not each.refused]
    sums = {name: sum(getattr(each, name) for each in with_it) * PAGE_BYTES / (1 << 20) for name in _PAGES}
    out, read, donors, waiting, disk = map(size_words, sums.values())
    seconds, nodes = sum(each.seconds for each in with_it), f" on {len(with_it)} nodes" if len(with_it) > 1 else ""
    return (
        f"{out} out, {read} in ({donors} from donors, {waiting} from the queue of the disk, {disk} from the disk), "
        f"{seconds:,.1f} s in reads and writes{nodes}"
    )


def _names(folder: Path, uid: int) -> list[str]:
    with (
        suppress(OSError, CorruptCheckpoint, ValueError),
        open_folder(folder) as above,
        open_folder(control.MEMORY, above) as here,
    ):
        if fstat(above).st_uid == uid:
            with scandir(here) as entries:
                return [each.name for each in islice(entries, MOST_NODES) if each.name.endswith(".json")]
    return []


def _are_donors(value: object) -> TypeGuard[dict[str, int]]:
    return (
        isinstance(value, dict)
        and len(value) <= MOST_DONORS
        and all(_DONOR.fullmatch(name) and control.integer(size) >= 0 for name, size in value.items())
    )


def _number(value: object) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e12 else -1.0  # type: ignore[operator,arg-type]


def _line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_REASON]
