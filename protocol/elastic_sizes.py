"""The numbers of GPUs that an elastic job can use (`tsbatch --elastic=MIN-MAX[:STEP]`), and of its parameter servers.

Their text is MIN-MAX[:STEP], of a job with servers (`--servers`) MIN-MAX[:STEP]+MIN-MAX*CPUS[:async]: the numbers of servers, the
CPUs of each worker and server (server_counts.py), and whether it trains asynchronously.

The supervisor reports them (control.py); until then the controller has the note of the submission (submitted_scripts.py). Both are
statements of the job's owner, and count for that job only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tiresias.protocol import server_counts
from tiresias.protocol.server_counts import ServerCounts

FIXED = "fixed"  # of a note: a later submission of the same script, without the option
_RANGE = r"([1-9]\d{0,5})-([1-9]\d{0,5})"
_TEXT = re.compile(rf"{_RANGE}(?::([1-9]\d{{0,5}}))?(?:\+{_RANGE}\*([1-9]\d{{0,5}})(:async)?)?", re.ASCII)


class ElasticSizes(NamedTuple):
    """The sizes of an elastic job, in GPUs.

    Attributes:
        least: The fewest.
        most: The most.
        step: Sizes differ from the requested number of GPUs by multiples of it.
        servers: The numbers of parameter servers; None: the job has none.
    """

    least: int
    most: int
    step: int = 1
    servers: ServerCounts | None = None


def read(text: object) -> ElasticSizes | None:
    """Return the sizes of a text as `known` returns it; None for any other value."""
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    servers = ServerCounts(int(found[4]), int(found[5]), int(found[6]), bool(found[7])) if found[4] else None
    sizes = ElasticSizes(int(found[1]), int(found[2]), int(found[3] or 1), servers)
    is_possible = sizes.least <= sizes.most and (servers is None or servers.least <= servers.most <= server_counts.MOST)
    return sizes if is_possible else None


def without_servers(text: str) -> str:
    """Return the part of a text that has the numbers of GPUs."""
    return text.partition("+")[0]


def known(value: object) -> str:
    """Return `value` where it states sizes or `fixed`, else "": it comes from a file of the user."""
    return value if isinstance(value, str) and (value == FIXED or read(value)) else ""
