"""Decoding of a terminal's bytes into keys: one character, or a name such as "up" or "escape". Other bytes are dropped.

A terminal sends ESC both for the escape key and as the first byte of a sequence; only the time until the next byte
distinguishes them. An ESC at the end is therefore kept until `settle` reports that no byte followed.
"""

from __future__ import annotations

import codecs
import re

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]{0,24}[ -/]{0,4}[@-~]|O[ -~])")  # longer ones are not recognised
_BEGUN = re.compile(r"\x1b(?:\[[0-?]{0,24}[ -/]{0,4}|O)?")
_NAMES = {
    "A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end", "1~": "home", "7~": "home", "4~": "end",
    "8~": "end", "5~": "pageup", "6~": "pagedown",
}  # fmt: skip
_CONTROLS = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x0c": "redraw",
    "\x15": "clear",
    "\x02": "pageup",
    "\x06": "pagedown",
}


class Decoder:
    """Decodes bytes incrementally."""

    def __init__(self) -> None:
        self._characters = codecs.getincrementaldecoder("utf-8")("ignore")
        self._rest = ""

    @property
    def waits(self) -> bool:
        """Whether the rest of a sequence, or the end of an escape key, is still open."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[str]:
        """Return the keys completed by `data`."""
        text, keys = self._rest + self._characters.decode(data), list[str]()
        while text and not _BEGUN.fullmatch(text):
            key, text = _first(text)
            keys += [key] if key else []
        self._rest = text
        return keys

    def settle(self) -> list[str]:
        """Return the key that is complete because no byte followed."""
        rest, self._rest = self._rest, ""
        return ["escape"] if rest == "\x1b" else []


def _first(text: str) -> tuple[str, str]:
    """Return the first key ("" for an unknown one) and the rest of the text."""
    if sequence := _SEQUENCE.match(text):
        return _NAMES.get(sequence[0][2:], ""), text[sequence.end() :]
    if text[0] == "\x1b":
        return "escape", text[1:]
    return _CONTROLS.get(text[0], text[0] if text[0].isprintable() else ""), text[1:]
