"""The request of a job: `remote-mem=SIZE` in a file of the node or in a variable of the prolog."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tiresias.errors import UsageError
from tiresias.services.remote_memory.job_swap import swap_area

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_REQUEST = re.compile(r"(?:^|[\s,;])remote-mem=([^\s,;]*)")
_SIZE = re.compile(r"(\d{1,9})([KMGT]?)", re.IGNORECASE)
_JOB = re.compile(r"[1-9]\d{0,9}")


def job_of(environment: Mapping[str, str]) -> str:
    """Return the id of the prolog's or epilog's job.

    Raises:
        UsageError: There is none.
    """
    job = environment.get("SLURM_JOB_ID", "")
    if not is_job(job):
        raise UsageError(f"SLURM_JOB_ID is {job!r}: this program runs in Slurm's prolog and epilog")
    return job


def is_job(text: str) -> bool:
    """Return whether a text is the id of a job."""
    return bool(_JOB.fullmatch(text))


def requested_bytes(text: str) -> int:
    """Return the bytes that a text requests, rounded up to whole pages; 0 where it requests nothing.

    Raises:
        UsageError: It is no size above 0, or there are several requests.
    """
    found = _REQUEST.findall(text)
    if not found:
        return 0
    size = _SIZE.fullmatch(found[0])
    if len(found) > 1 or not size or not int(size[1]):
        raise UsageError(f"remote-mem={found[0]}: write one size above 0 with K, M, G or T; without a unit it is MiB")
    count = int(size[1]) * _UNITS[size[2].upper() or "M"]
    return max(swap_area.LEAST_BYTES, -(-count // swap_area.PAGE_BYTES) * swap_area.PAGE_BYTES)


def request_text(job: str, requests: Path | None, variable: str, environment: Mapping[str, str]) -> str:
    """Return the text that contains the request: the file of the job where the folder has one, else the variable."""
    if requests is not None:
        with suppress(FileNotFoundError):
            return (requests / job).read_text(errors="replace")
    return environment.get(variable, "")
