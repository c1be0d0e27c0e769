"""Slurm's small languages: GRES and TRES strings, array task lists, exit statuses, JSON numbers.

Pure functions; what they cannot read they read as nothing, because one odd record must not hide ten thousand good ones. Numbers
and lists are cut at the limits of bounds.py, so that no text costs more time or memory than its length explains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from tiresias.protocol import elastic_sizes
from tiresias.scheduler.host_lists import split_outside
from tiresias.slurm_plugin.backends.bounds import (
    MAX_ARRAY_TASKS,
    MAX_GPU_INDEXES,
    MAX_NUMBER,
    MAX_SOCKETS,
    MAX_UINT32,
)

_MAX_DIGITS = 19  # of a number in a text: one with more is read as MAX_NUMBER

_RANGE = re.compile(r"(\d+)(?:-(\d+))?(?::(\d+))?")
# gpu, gpu:4, gpu:v100:4, gpu:v100:4(IDX:0-3), gpu:4(S:0-1), with gres: or gres/ before it and = in place of the last colon
_GPU = re.compile(
    r"(?:gres[:/])?gpu(?:[:/](?P<type>(?!\d+(?:$|[(]))[^:=(]+))?(?:[:=](?P<count>\d+))?(?:\((?P<extra>.*)\))?"
)
# shard:4, mps:100, shard:a100:2(1/4,1/4), mps:50(IDX:0), with gres: or gres/ before it
_SHARED = re.compile(r"(?:gres[:/])?(?P<name>shard|mps)(?:[:/=][^(]*)?(?:\((?P<extra>.*)\))?")

_SUBMITTED = re.compile(r"/tsbatch-([0-9a-f]{16})-(?:(yes|no|restart)-)?(?:(\d[\d:*+-]*(?:async)?)-)?", re.ASCII)


def number(value: Any, most: int = MAX_NUMBER) -> int:
    """An integer from JSON: plain (Slurm 22.05) or {"set", "infinite", "number"}; 0 when unset, null, infinite, negative or no
    number, and never more than `most`."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else 0
    if not isinstance(value, (int, float)) or value != value:
        return 0
    return int(min(max(value, 0), most))


def _integer(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else MAX_NUMBER


def gpus_by_type(text: str) -> tuple[tuple[str, int], ...]:
    """(type, count) of the GPUs in the GRES of a node, in their order; () where some have no type.

    "gpu:s0:2,gpu:s1:2", "gpu:s0:2(S:0),gpu:s1:2(S:1)".
    """
    found, _ = gpus_beside(text)
    return tuple((kind, count) for count, kind in found) if all(kind for _, kind in found) else ()


def gpus_beside(text: str) -> tuple[list[tuple[int, str]], str]:
    """(count, type) of each part of a GRES or TRES string that states GPUs, and the other parts: "cpu=2,gres/gpu:s0:1"."""
    parts = [(part, gpus(part)) for part in split_outside(text)]
    stated = [(count, kind) for _, (count, kind, _) in parts if count]
    return stated, ",".join(part for part, (count, *_) in parts if not count)


def gpus(text: str) -> tuple[int, str, tuple[int, ...]]:
    """(count, type, indexes) of the GPUs in a GRES or TRES string; (0, "", ()) when it names none.

    "gres/gpu:v100:3", "gres:gpu:6", "gpu:2(IDX:0,2)", "cpu=6,gres/gpu=3,gres/gpu:v100=3". A total beside typed parts is the
    sum of them; types are joined with commas.
    """
    total, types, parts, indexes = 0, [], 0, []
    for match in map(_GPU.fullmatch, split_outside(text)):
        if match is None:
            continue
        count = _integer(match["count"] or "1")
        if match["type"]:
            types.append(match["type"])
            parts += count
        else:
            total += count
        indexes += _indexes(match["extra"] or "")
    return total or parts, ",".join(types), tuple(indexes)


def sharing(text: str) -> str:
    """The GRES by which a GRES or TRES string asks for a part of a GPU, shard or mps; "" where it does not."""
    found = map(_SHARED.fullmatch, split_outside(text))
    return next((match["name"] for match in found if match), "")


def shared_gpus(text: str) -> tuple[int, ...]:
    """The GRES indexes of the GPUs of which a job holds a part: "shard:3(2/4,0/4,1/4)" -> (0, 2), of 22.05 "shard:3(IDX:0)"."""
    found: list[int] = []
    for match in map(_SHARED.fullmatch, split_outside(text)):
        extra = (match["extra"] or "") if match else ""
        parts = extra.split(",", MAX_GPU_INDEXES) if "/" in extra else []
        found += [at for at, part in enumerate(parts) if part.partition("/")[0].strip("-0")] or _indexes(extra)
    return tuple(found)


def _indexes(extra: str) -> list[int]:
    """None where there are more than a node may have."""
    found = integers(extra.removeprefix("IDX:"), MAX_GPU_INDEXES + 1) if extra.startswith("IDX:") else []
    return found if len(found) <= MAX_GPU_INDEXES else []


def gpu_sockets(text: str) -> int:
    """The sockets of a node's GPUs in its GRES string: "gpu:8(S:0-1)" -> 2; 0 where it names none, or has different numbers of
    GPUs of one type on each."""
    counts: dict[tuple[int, ...], int] = {}
    for match in map(_GPU.fullmatch, split_outside(text)):
        if match is None:
            continue
        extra = match["extra"] or ""
        sockets = tuple(integers(extra.removeprefix("S:"), MAX_SOCKETS)) if extra.startswith("S:") else ()
        counts[sockets] = counts.get(sockets, 0) + _integer(match["count"] or "1")
    uneven = len(counts) > 1 and len({(len(sockets), count) for sockets, count in counts.items()}) > 1
    return 0 if () in counts or uneven else len({socket for sockets in counts for socket in sockets})


def ranges(numbers: Sequence[int]) -> str:
    """[0, 1, 2, 7] -> "0-2,7". `numbers` in ascending order, none twice."""
    pieces: list[list[int]] = []
    for number in numbers:
        if pieces and pieces[-1][-1] == number - 1:
            pieces[-1][1:] = [number]
        else:
            pieces.append([number])
    return ",".join("-".join(str(end) for end in piece) for piece in pieces)


def integers(text: str, most: int = MAX_ARRAY_TASKS) -> list[int]:
    """ "0-2,7,10-14:2" -> [0, 1, 2, 7, 10, 12, 14]: GRES indexes, array tasks. The first `most` of them."""
    return list(islice(_integers(text), most))


def _integers(text: str) -> Iterator[int]:
    for match in map(_RANGE.fullmatch, text.split(",")):
        if match:
            first, last = _integer(match[1]), _integer(match[2] or match[1])
            yield from range(first, last + 1, _integer(match[3] or "1") or 1)


def array_tasks(text: str) -> list[int]:
    """The waiting tasks of an array record: "1-5,9%2" -> [1, 2, 3, 4, 5, 9] (%: at most two at once). One more than
    MAX_ARRAY_TASKS where there are more."""
    return integers(text.partition("%")[0], MAX_ARRAY_TASKS + 1)


def script(command: str) -> str:
    """The hash of the user's script in the path that tsbatch submits from (wrappers/tsbatch.py)."""
    found = _SUBMITTED.search(command)
    return found[1] if found else ""


def choice(command: str) -> str:
    """The owner's choice of `tsbatch --opportunistic` in such a path; "" without one."""
    found = _SUBMITTED.search(command)
    return found[2] or "" if found else ""


def sizes(command: str) -> str:
    """The sizes of `tsbatch --elastic` in such a path; "" without them."""
    found = _SUBMITTED.search(command)
    return elastic_sizes.known(found[3]) if found else ""


def exit_code(status: Any) -> int:
    """As a shell would see it, from wait()'s status (22.05) or {"return_code", "signal"}."""
    if isinstance(status, dict):
        signal = status.get("signal")
        signal = signal if isinstance(signal, dict) else {}
        killed = number(signal.get("id", signal.get("signal_id")), MAX_UINT32)
        return 128 + killed if killed else number(status.get("return_code"), MAX_UINT32)
    code, killed = number(status, MAX_UINT32) >> 8, number(status) & 0x7F
    return 128 + killed if killed else code
