"""Host lists, as Slurm and its users write them: gpu[01-03,07],cpu1."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from itertools import islice, product

MAX_HOSTS = 100_000  # names in one host list
_MAX_RANGES = 8  # in one part of a host list, and
_MAX_NAME = 255  # characters outside its ranges: a part with more is read as one name
_MAX_DIGITS = 19  # of a number: one with more is read as text
_MARK = re.compile(r"[][(),]")
_NUMBERED = re.compile(r"(.*?)(\d{1,18})", re.ASCII | re.DOTALL)


def hosts(text: str) -> tuple[str, ...]:
    """Return the names in a host list, as `scontrol show hostnames` does: "gpu[01-03,07],cpu1" -> gpu01 gpu02 gpu03 gpu07 cpu1.
    No name twice, and no more than MAX_HOSTS."""
    return host_list(text)[0]


def host_list(text: str) -> tuple[tuple[str, ...], bool]:
    """Return the names as `hosts`, and whether names are missing because there are more than MAX_HOSTS."""
    found = list(islice((name for part in split_outside(text) for name in _expand(part)), MAX_HOSTS + 1))
    return tuple(dict.fromkeys(map(sys.intern, found[:MAX_HOSTS]))), len(found) > MAX_HOSTS


def _expand(part: str) -> Iterator[str]:
    pieces = re.split(r"\[([^][]*)\]", part)  # text, range, text, range, ..., text
    if len(pieces) // 2 > _MAX_RANGES or sum(map(len, pieces[::2])) > _MAX_NAME:
        return iter([part])
    choices, left = [], 2 * MAX_HOSTS  # names of all ranges together: a part with more is cut by host_list
    for at, piece in enumerate(pieces):
        choices.append(list(islice(_padded(piece), max(left, 1))) if at % 2 else [piece])
        left -= len(choices[-1])
    return ("".join(chosen) for chosen in product(*choices))


def _padded(ranges: str) -> Iterator[str]:
    for one in ranges.split(","):
        first, _, last = one.partition("-")
        if _is_number(first) and _is_number(last or first):
            yield from (f"{value:0{len(first)}}" for value in range(int(first), int(last or first) + 1))
        else:
            yield one


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


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


def compressed(names: Iterable[str]) -> str:
    """Each name once, whatever the order. O(names log names): 16,000 nodes of one row make a dozen bytes, where one argument of
    a command has 128 KiB."""
    plain: list[str] = []
    numbers: dict[tuple[str, int], set[int]] = {}  # by what is before the number, and by its width
    for name in dict.fromkeys(names):
        found = _NUMBERED.fullmatch(name)
        if found is None:
            plain.append(name)
        else:
            numbers.setdefault((found[1], len(found[2])), set()).add(int(found[2]))
    return ",".join([*plain, *(_bracketed(prefix, width, sorted(of)) for (prefix, width), of in numbers.items())])


def _bracketed(prefix: str, width: int, numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"{prefix}{numbers[0]:0{width}}"
    return f"{prefix}[{','.join(_range(first, last, width) for first, last in _runs(numbers))}]"


def _range(first: int, last: int, width: int) -> str:
    return f"{first:0{width}}" if first == last else f"{first:0{width}}-{last:0{width}}"


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """[1, 2, 3, 7] -> [(1, 3), (7, 7)]."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [(first, last) for first, last in runs]
