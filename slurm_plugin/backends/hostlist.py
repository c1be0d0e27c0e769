"""Lists of nodes as short as Slurm writes them: gpu[01-03,07],cpu1. `parse.hosts` expands them."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBERED = re.compile(r"(.*?)(\d{1,18})", re.ASCII | re.DOTALL)


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
