"""The topologies by their name on the command line: fat_tree:4, vl2:4,4, bcube:4,1, or a file of a site."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from tiresias.errors import UsageError
from tiresias.scheduler.registry import Registry
from tiresias.simulator.topologies.network import Network
from tiresias.simulator.topologies.network_builder import NetworkOptions
from tiresias.simulator.topologies.site_file import read_site

BuildNetwork: TypeAlias = Callable[[Sequence[int], NetworkOptions], Network]

_HERE = "tiresias.simulator.topologies"
TOPOLOGIES: Registry[BuildNetwork] = Registry(
    "",
    {
        "fat_tree": f"{_HERE}.fat_tree:fat_tree",
        "vl2": f"{_HERE}.vl2:vl2",
        "bcube": f"{_HERE}.bcube:bcube",
    },
)
_WORDS = re.compile(r"(\w+):(\d{1,6}(?:,\d{1,6}){0,7})", re.ASCII)


def network_of(text: str, options: NetworkOptions | None = None) -> Network:
    """Return the network of a name with numbers, or of a site's file.

    Args:
        text: Such as fat_tree:4, vl2:4,4,16, bcube:4,1; anything else is the path of a file.
        options: Bandwidths and kinds of servers; None: those of the paper (marl-placement, section VI-A).

    Raises:
        UsageError: There is no such topology or file, or the numbers are not possible.
    """
    found = _WORDS.fullmatch(text)
    known = ", ".join(TOPOLOGIES)
    if found and found[1] in TOPOLOGIES:
        return TOPOLOGIES[found[1]]([int(number) for number in found[2].split(",")], options or NetworkOptions())
    if text.partition(":")[0] in TOPOLOGIES:
        raise UsageError(
            f"topology {text[:40]!r}: give the name, a colon and numbers with commas, such as fat_tree:4 or bcube:4,1"
        )
    if not _is_there(Path(text)):
        raise UsageError(
            f"topology {text[:80]!r}: no such topology or file; there are {known}, each with numbers, or a file"
        )
    return read_site(Path(text), options or NetworkOptions())


def _is_there(file: Path) -> bool:
    """Return whether there is such a file; a name that no file can have is none."""
    try:
        return file.exists()
    except OSError:
        return False
