"""Slurm's small languages: GRES and TRES strings, host lists, array task lists, exit statuses, JSON numbers.

Pure functions; what they cannot read they read as nothing, because one odd record must not hide ten thousand good ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

_MARK = re.compile(r"[][(),]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?(?::(\d+))?")
# gpu, gpu:4, gpu:v100:4, gpu:v100:4(IDX:0-3), gpu:4(S:0-1), with gres: or gres/ before it and = in place of the last colon
_GPU = re.compile(
    r"(?:gres[:/])?gpu(?:[:/](?P<type>(?!\d+(?:$|[(]))[^:=(]+))?(?:[:=](?P<count>\d+))?(?:\((?P<extra>.*)\))?"
)

_SUBMITTED = re.compile(r"/tsbatch-([0-9a-f]{16})-")


def number(value: Any) -> int:
    """An integer from JSON: plain (Slurm 22.05) or {"set", "infinite", "number"}; 0 when unset, null or infinite."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else 0
    return int(value) if isinstance(value, (int, float)) else 0


def gpus(text: str) -> tuple[int, str, tuple[int, ...]]:
    """(count, type, indexes) of the GPUs in a GRES or TRES string; (0, "", ()) when it names none.

    "gres/gpu:v100:3", "gres:gpu:6", "gpu:2(IDX:0,2)", "cpu=6,gres/gpu=3,gres/gpu:v100=3". A total beside typed parts is the
    sum of them; types are joined with commas.
    """
    total, types, parts, indexes = 0, [], 0, []
    for match in map(_GPU.fullmatch, split_outside(text)):
        if match is None:
            continue
        count = int(match["count"] or 1)
        if match["type"]:
            types.append(match["type"])
            parts += count
        else:
            total += count
        indexes += _indexes(match["extra"] or "")
    return total or parts, ",".join(types), tuple(indexes)


def _indexes(extra: str) -> list[int]:
    return integers(extra.removeprefix("IDX:")) if extra.startswith("IDX:") else []


def ranges(numbers: Sequence[int]) -> str:
    """[0, 1, 2, 7] -> "0-2,7". `numbers` in ascending order, none twice."""
    pieces: list[list[int]] = []
    for number in numbers:
        if pieces and pieces[-1][-1] == number - 1:
            pieces[-1][1:] = [number]
        else:
            pieces.append([number])
    return ",".join("-".join(str(end) for end in piece) for piece in pieces)


def integers(text: str) -> list[int]:
    """ "0-2,7,10-14:2" -> [0, 1, 2, 7, 10, 12, 14]: GRES indexes, array tasks."""
    found: list[int] = []
    for match in map(_RANGE.fullmatch, text.split(",")):
        if match:
            first, last = int(match[1]), int(match[2] or match[1])
            found.extend(range(first, last + 1, int(match[3] or 1) or 1))
    return found


def array_tasks(text: str) -> list[int]:
    """The waiting tasks of an array record: "1-5,9%2" -> [1, 2, 3, 4, 5, 9] (%: at most two at once)."""
    return integers(text.partition("%")[0])


def split_outside(text: str) -> list[str]:
    """Split at the commas that stand outside brackets. O(length): users may write 64 KiB of node names."""
    parts, begin, depth = [], 0, 0
    for mark in _MARK.finditer(text):
        if mark[0] in "[(":
            depth += 1
        elif mark[0] in "])":
            depth = max(depth - 1, 0)
        elif not depth:
            parts.append(text[begin : mark.start()])
            begin = mark.end()
    return [part for part in (*parts, text[begin:]) if part]


def hosts(text: str) -> tuple[str, ...]:
    """Expand a host list as `scontrol show hostnames` does: "gpu[01-03,07],cpu1" -> gpu01 gpu02 gpu03 gpu07 cpu1."""
    return tuple(name for part in split_outside(text) for name in _expand(part))


def _expand(part: str) -> Iterator[str]:
    pieces = re.split(r"\[([^][]*)\]", part)  # text, range, text, range, ..., text
    choices = [list(_padded(piece)) if at % 2 else [piece] for at, piece in enumerate(pieces)]
    return ("".join(chosen) for chosen in product(*choices))


def _padded(ranges: str) -> Iterator[str]:
    for one in ranges.split(","):
        first, _, last = one.partition("-")
        if first.isdigit() and (last or first).isdigit():
            yield from (f"{value:0{len(first)}}" for value in range(int(first), int(last or first) + 1))
        else:
            yield one


def script(command: str) -> str:
    """The hash of the user's script in the path that tsbatch submits from (wrappers/tsbatch.py)."""
    found = _SUBMITTED.search(command)
    return found[1] if found else ""


def exit_code(status: Any) -> int:
    """As a shell would see it, from wait()'s status (22.05) or {"return_code", "signal"}."""
    if isinstance(status, dict):
        signal = status.get("signal") or {}
        killed = number(signal.get("id", signal.get("signal_id")))
        return 128 + killed if killed else number(status.get("return_code"))
    code, killed = number(status) >> 8, number(status) & 0x7F
    return 128 + killed if killed else code
