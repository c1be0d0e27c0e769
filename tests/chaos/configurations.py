"""Which configuration was in force when: by versions of the file, orders to read it, and restarts of the controller.

A controller reads the file when it starts, and when it is ordered to. An order without an answer leaves the configuration unknown
until the next order or restart that settles it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.cell_layouts import Layout

ACCEPTED, REFUSED, UNANSWERED = "accepted", "refused", "unanswered"
NOTHING_CHANGED = "nothing changed"


@dataclass(frozen=True, slots=True)
class Version:
    """The file was replaced between two epoch seconds; it has that layout since."""

    first: float
    last: float
    layout: str


@dataclass(frozen=True, slots=True)
class Order:
    """An order to read the file again.

    Attributes:
        first: Epoch second at which it was given.
        last: Epoch second of its answer.
        layout: Of the file.
        outcome: ACCEPTED, REFUSED or UNANSWERED.
        words: Lines of the answer.
    """

    first: float
    last: float
    layout: str
    outcome: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hangup:
    """A SIGHUP while the file was invalid. line: that of the controller's log which refuses it; "": none in time."""

    first: float
    last: float
    layout: str
    line: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which one configuration was in force. last: from then on it may be another one."""

    first: float
    last: float
    layout: str

    def covers(self, first: float, last: float) -> bool:
        """Return whether the whole time is part of the stretch."""
        return self.first <= first and last <= self.last


@dataclass(slots=True)
class Records:
    """What a campaign did to the configuration.

    Attributes:
        versions: Of the file, the first one that of the start.
        orders: In the order in which they were given.
        hangups: In the order in which they were sent.
    """

    versions: list[Version] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    hangups: list[Hangup] = field(default_factory=list)

    def shown(self, first: float, last: float) -> set[str]:
        """Return the layouts that a program may have read in that time."""
        gone = [*(version.last for version in self.versions[1:]), math.inf]
        versions = zip(self.versions, gone, strict=True)
        return {version.layout for version, end in versions if version.first <= last and end >= first}


def stretches(
    records: Records, restarts: Iterable[tuple[float, float]], layouts: Mapping[str, Layout]
) -> list[Stretch]:
    """Return the times in which the configuration is known, in their order.

    Args:
        records: Versions and orders.
        restarts: From the end of each controller to the first cycle of the next one.
        layouts: All layouts by name.
    """
    events = [(one.first, *_by_order(one)) for one in records.orders if one.outcome != REFUSED]
    for ended, began in restarts:
        read = {name for name in records.shown(ended, began) if not layouts[name].refusal}
        events.append((ended, began, next(iter(read)) if len(read) == 1 else ""))
    found, since, layout = list[Stretch](), -math.inf, records.versions[0].layout
    for first, last, after in sorted(events):
        if layout and first > since:
            found.append(Stretch(since, first, layout))
        since, layout = max(since, last), after
    return [*found, Stretch(since, math.inf, layout)] if layout else found


def _by_order(order: Order) -> tuple[float, str]:
    """Return from when on a configuration is in force, and its layout; "": unknown."""
    return (order.last, order.layout) if order.outcome == ACCEPTED else (order.first, "")


def at(found: Sequence[Stretch], moment: float) -> str:
    """Return the layout in force; "": unknown."""
    return next((one.layout for one in found if one.first <= moment < one.last), "")
