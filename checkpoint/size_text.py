"""Numbers of bytes for people."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size_text(count: float) -> str:
    """Return a number of bytes in the largest unit of which there is one."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count:.0f} B" if not unit else f"{count:.1f} {_UNITS[unit]}"
