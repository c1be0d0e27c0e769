"""Whether the donors of a configuration answer, and how much memory they lend now."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.errors import TiresiasError
from tiresias.services.remote_memory.job_swap.swap_settings import SwapSettings, read_swap_settings
from tiresias.services.remote_memory.messages.donor_messages import DonorStatistics, ReadDonorStatistics
from tiresias.services.wire.channel import Channel
from tiresias.services.wire.peer_identity import service_identity
from tiresias.services.wire.private_files import read_service_key

CONFIGURATION = Path("/etc/tiresias/remote-memory.json")
TIMEOUT_S = 5.0
_AT_ONCE = 16


class DonorAnswer(NamedTuple):
    """What one donor answers.

    Attributes:
        address: The donor's.
        free_bytes: What it lends beyond the mapped slabs.
        problem: Why its answer is of no use; "": none.
    """

    address: str
    free_bytes: int = 0
    problem: str = ""


def configuration_state(file: Path = CONFIGURATION) -> dict[str, list[str]]:
    """Return what works and what does not in a node's configuration, one line each; nothing where there is no file."""
    if not file.exists():
        return {"works": [], "problems": []}
    try:
        settings = read_swap_settings(file)
        answers = donor_answers(settings)
    except (TiresiasError, OSError) as error:
        return {"works": [], "problems": [str(error)]}
    free = sum(each.free_bytes for each in answers) >> 20
    good = sum(not each.problem for each in answers)
    problems = [f"donor {each.address}: {each.problem}" for each in answers if each.problem]
    if not settings.disk.is_dir():
        problems.append(f"{file}: disk: {settings.disk} is no folder")
    return {"works": [f"{good} of {len(answers)} donors answer, {free} MiB free"], "problems": problems}


def donor_answers(settings: SwapSettings) -> list[DonorAnswer]:
    """Return the answer of each donor, within a few seconds.

    Raises:
        UsageError: The key cannot be read.
    """
    if settings.service_key_file is None:
        return []
    ask = partial(_answer, key=read_service_key(settings.service_key_file), slab_bytes=settings.slab_bytes)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(ask, settings.donors))


def _answer(address: str, key: bytes, slab_bytes: int) -> DonorAnswer:
    try:
        channel = Channel.connect(address, service_identity(f"doctor-{os.getpid()}"), key, TIMEOUT_S)
        try:
            answer = channel.request(ReadDonorStatistics())
        finally:
            channel.close()
    except TiresiasError as error:
        return DonorAnswer(address, problem=str(error).removeprefix(f"{address}: "))
    size, free = _slabs(answer)
    if size != slab_bytes:
        return DonorAnswer(address, problem=f"its slabs have {size >> 20} MiB, those of this node {slab_bytes >> 20}")
    return DonorAnswer(address, free * size)


def _slabs(answer: Any) -> tuple[int, int]:
    """Return the size and the number of the free slabs; (0, 0) where the answer is no statistics of a donor."""
    statistics = answer.statistics if isinstance(answer, DonorStatistics) else None
    values = [
        statistics.get(key) if isinstance(statistics, dict) else None for key in ("slab_bytes", "available_slabs")
    ]
    size, free = (value if type(value) is int and value >= 0 else 0 for value in values)
    return size, free
