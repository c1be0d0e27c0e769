"""Types of arguments. They raise UsageError, because argparse reports a ValueError in several lines."""

from __future__ import annotations

import re
from collections.abc import Callable

from tiresias.errors import UsageError
from tiresias.simulator.experiments.experiment import ALL_POLICIES
from tiresias.simulator.formats import cells
from tiresias.simulator.simulation_rules import Cost

_SPAN = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)([smhd]?)", re.ASCII)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def one_of(option: str, allowed: tuple[str, ...]) -> Callable[[str], str]:
    """Return the type of an option with some allowed words."""

    def check(text: str) -> str:
        if text not in allowed:
            raise UsageError(f"{option} {text[:40]!r} is not possible; there are {', '.join(allowed)}")
        return text

    return check


def some_of(option: str, allowed: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    """Return the type of an option with a list of some allowed words, each of them once."""
    check_word = one_of(option, allowed)

    def check(text: str) -> tuple[str, ...]:
        found = tuple(map(check_word, text.split(",")))
        if len(set(found)) < len(found):
            raise UsageError(f"{option} {text[:40]!r}: a word occurs twice; remove one")
        return found

    return check


def words(text: str) -> tuple[str, ...]:
    """Return the words of a list with commas."""
    return tuple(word for word in text.split(",") if word)


def policies(text: str) -> tuple[str, ...]:
    """Return the names of policies."""
    names = tuple(text.split(","))
    for place, name in enumerate(names):
        if name not in ALL_POLICIES:
            raise UsageError(f"--policy {name[:40]!r}: no such policy; there are {', '.join(ALL_POLICIES)}")
        if name in names[:place]:
            raise UsageError(f"--policy: {name} occurs twice; remove one")
    return names


def whole_number(option: str) -> Callable[[str], int]:
    """Return the type of an option that is a whole number above 0."""

    def check(text: str) -> int:
        if not (text.isdecimal() and 0 < int(text[:20]) <= cells.MOST_GPUS):
            most = f", {cells.MOST_GPUS:,} at most" if text.isdecimal() and int(text[:20]) else ""
            raise UsageError(f"{option} {text[:40]!r}: give a whole number above 0{most}")
        return int(text)

    return check


def count(option: str) -> Callable[[str], int]:
    """Return the type of an option that is a whole number, 0 or more."""
    above = whole_number(option)

    def check(text: str) -> int:
        return 0 if text == "0" else above(text)

    return check


def number(option: str) -> Callable[[str], float]:
    """Return the type of an option that is a number."""

    def check(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise UsageError(f"{option} {text[:40]!r}: give a number") from None

    return check


def seconds(option: str) -> Callable[[str], float]:
    """Return the type of an option that is a number of seconds, 0 or more."""
    parse = number(option)

    def check(text: str) -> float:
        if not 0 <= (found := parse(text)) <= cells.LARGEST:
            most = f", {cells.LARGEST:g} at most" if found > 0 else ""
            raise UsageError(f"{option} {text[:40]!r}: give seconds, 0 or more{most}")
        return found

    return check


def span(option: str) -> Callable[[str], float]:
    """Return the type of an option that is a time above 0: seconds, or a number of s, m, h or d, such as 90m. In seconds."""

    def check(text: str) -> float:
        found = _SPAN.fullmatch(text)
        seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
        if not 0 < seconds <= cells.LARGEST:
            raise UsageError(f"{option} {text[:40]!r}: give a time above 0, such as 90m, 1h or 2d")
        return seconds

    return check


def share(option: str) -> Callable[[str], float]:
    """Return the type of an option that is a share, 0 to 1."""
    return _between(option, 0, 1, "share")


def factor(option: str) -> Callable[[str], float]:
    """Return the type of an option that is a factor, 1 to 1000."""
    return _between(option, 1, 1000, "factor")


def _between(option: str, least: int, most: int, what: str) -> Callable[[str], float]:
    parse = number(option)

    def check(text: str) -> float:
        if not least <= (found := parse(text)) <= most:
            raise UsageError(f"{option} {text[:40]!r}: give a {what}, {least} to {most}")
        return found

    return check


def percentile(option: str) -> Callable[[str], float]:
    """Return the type of an option that is a percentage, 0 to 100."""
    return _between(option, 0, 100, "percentage")


def thresholds(text: str) -> tuple[float, ...]:
    """Return thresholds, GPU-seconds."""
    return tuple(map(number("--threshold"), text.split(","))) if text else ()


def cost(text: str) -> Cost:
    """Return the cost of a preemption: RESUME, or PAUSE,RESUME."""
    found = list(map(number("--preemption-cost"), text.split(",")))
    if len(found) > 2 or not all(0 <= each <= cells.LARGEST for each in found):
        raise UsageError(f"--preemption-cost {text[:40]!r}: give seconds, 0 or more, or PAUSE,RESUME")
    return Cost(*found) if len(found) == 2 else Cost(resume=found[0])
