"""Stretches of time in which something that the campaign did explains what was seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Window:
    """of: the job, user or node that it is about; "" for all."""

    first: float
    last: float
    of: str = ""


@dataclass(slots=True)
class Windows:
    """A window that is open yet has no end."""

    found: list[Window] = field(default_factory=list)

    def add(self, first: float, last: float, of: str = "") -> None:
        self.found.append(Window(first, last, of))

    def touch(self, first: float, last: float, of: Iterable[str] = ()) -> bool:
        """Whether a window about everything, or about one of `of`, overlaps with first..last."""
        about = {"", *of}
        return any(one.of in about and one.first <= last and one.last >= first for one in self.found)
