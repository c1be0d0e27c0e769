"""Text of numbers, and the filter for every text that comes from a user.

Names, reasons and states pass through `printable`, whatever they contain: it returns one line of characters that each take
one or two cells on every terminal, so that a job's name can neither move the cursor nor shift a column.
"""

from __future__ import annotations

import time
import unicodedata

from rich.cells import cell_len

REPLACEMENT = "?"
ELLIPSIS = "…"
# General categories of unicodedata: controls, formats (bidi, zero-width), surrogates, private, unassigned, combining, separators.
_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Mn", "Mc", "Me", "Zl", "Zp"})
# Right-to-left letters: a terminal with the bidi algorithm reorders the whole line around them.
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
# Characters that merge with their neighbours: regional indicators, skin tones, conjoining Hangul.
_MERGING = (
    range(0x1F1E6, 0x1F200),
    range(0x1F3FB, 0x1F400),
    range(0x1100, 0x1200),
    range(0xA960, 0xA980),
    range(0xD7B0, 0xD800),
)


def printable(text: object, limit: int) -> str:
    """Return `text` as one harmless line of at most `limit` cells, with an ellipsis where it was cut.

    Cost: O(limit), whatever the length.
    """
    head = str(text)[: 2 * limit + 8]
    if head.isascii() and head.isprintable():
        return head if len(head) <= limit else _cut(head, limit)
    return _cut("".join(map(_harmless, unicodedata.normalize("NFC", head))), limit)


def _harmless(character: str) -> str:
    if character.isspace():
        return " "
    number = ord(character)
    harmful = (
        unicodedata.category(character) in _HARMFUL
        or unicodedata.bidirectional(character) in _RIGHT_TO_LEFT
        or cell_len(character) not in (1, 2)
        or any(number in each for each in _MERGING)
    )
    return REPLACEMENT if harmful else character


def _cut(line: str, limit: int) -> str:
    if cell_len(line) <= limit:
        return line
    kept, width = [], 0
    for character in line:
        width += cell_len(character)
        if width > limit - 1:
            break
        kept.append(character)
    return ("".join(kept) + ELLIPSIS)[:limit]


def duration(seconds: float) -> str:
    """Return at most two units: 8s, 4m05s, 3h20m, 12d04h."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def time_left(seconds: float) -> str:
    """Return an estimate in at most two units: less than a minute, about 25 min, about 2 h 10 min, about 3 days 4 h."""
    minutes = round(max(seconds, 0.0) / 60)
    if minutes < 1:
        return "less than a minute"
    if minutes < 60:
        return f"about {minutes} min"
    if (tens := round(minutes / 10)) < 24 * 6:
        return f"about {tens // 6} h{f' {tens % 6}0 min' if tens % 6 else ''}"
    days, hours = divmod(round(minutes / 60), 24)
    return f"about {days} day{'s' if days > 1 else ''}{f' {hours} h' if hours else ''}"


def gpu_time(gpu_seconds: float) -> str:
    """Return GPU-seconds below 10,000, GPU-hours above: 3200 s, 12.5 h."""
    if gpu_seconds < 10_000:
        return f"{gpu_seconds:.0f} s"
    hours = gpu_seconds / 3600
    return f"{hours:.1f} h" if hours < 1000 else f"{hours:,.0f} h"


def service(gpu_seconds: float) -> str:
    """Return GPU time with its unit, for text without a heading: 3200 GPU-s, 12.5 GPU-h."""
    amount, unit = gpu_time(gpu_seconds).split(" ")
    return f"{amount} GPU-{unit}"


def clock(moment: float, now: float) -> str:
    """Return the local time of day; with the date where it is more than a day from `now`."""
    return time.strftime("%H:%M:%S" if abs(now - moment) < 86400 else "%d %b %H:%M", time.localtime(moment))


def place(nodes: list[tuple[str, int]]) -> str:
    """Return nodes with their numbers of GPUs, such as `gpu01:4 gpu02:2`. Names are not abbreviated."""
    return " ".join(f"{name}:{gpus}" for name, gpus in nodes)
