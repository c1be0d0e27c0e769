"""How slurmctld fares, from the text of sdiag, which all versions of Slurm write alike (22.05 has no JSON of it)."""

from __future__ import annotations

import re

from tiresias.slurm_plugin.backends.interface import SlurmLoad

#     tiresias        (    2000) count:12     ave_time:345    total_time:4140
_LINE = re.compile(r"^\t(\S+) +\( *(\d+)\) count:(\d+) +ave_time:\d+ +total_time:(\d+)", re.MULTILINE)
_TYPES, _USERS = "statistics by message type", "statistics by user"


def load(text: str, uid: int) -> SlurmLoad:
    """Parse sdiag's output; `uid`: the controller's user. Missing values are 0."""
    calls, microseconds = next(
        (
            (int(count), int(total))
            for _, number, count, total in _LINE.findall(_below(text, _USERS))
            if int(number) == uid
        ),
        (0, 0),
    )
    return SlurmLoad(
        _figure(text, "Server thread count"),
        _figure(text, "Agent queue size"),
        _figure(text, "DBD Agent queue size"),
        calls,
        microseconds / 1e6,
    )


def by_type(text: str) -> dict[str, int]:
    """How many calls of each type slurmctld has served."""
    return {name: int(count) for name, _, count, _ in _LINE.findall(_below(text, _TYPES))}


def _below(text: str, title: str) -> str:
    """The lines under a heading, up to the next one, which is not indented."""
    lines = text.partition(title)[2].partition("\n")[2]
    return re.split(r"^(?=\S)", lines, maxsplit=1, flags=re.MULTILINE)[0]


def _figure(text: str, name: str) -> int:
    found = re.search(rf"^{name}: +(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 0
