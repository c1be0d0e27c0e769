"""A list of JSON objects, read one object at a time: the dump of a site's year has gigabytes, a job a few thousand characters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tiresias.errors import UsageError
from tiresias.simulator.formats import cells
from tiresias.simulator.formats.trace_file import TraceFile

PIECE = 1 << 20  # characters
LARGEST = 1 << 26  # characters of one value
REPORT_INTERVAL_JOBS = 1000

_NO_SPACE = re.compile(r"[^ \t\n\r]")


@dataclass(frozen=True, slots=True)
class Record:
    """One object. A method returns a field, or "" or nan if it is missing; UsageError names file, job and field."""

    file: Path
    name: str  # job 12, job 12 attempt 3
    value: dict[str, Any]

    def _at(self, path: str) -> Any:
        value: Any = self.value
        for key in path.split("/"):
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def refuse(self, path: str, why: str) -> NoReturn:
        """Raise UsageError for a field."""
        raise UsageError(f"{self.file}: {self.name}, field {path}: {str(self._at(path))[:40]!r} {why}")

    def is_word(self, path: str) -> bool:
        """Return whether a field is text."""
        return isinstance(self._at(path), str)

    def word(self, path: str) -> str:
        """Return a text."""
        value = self._at(path)
        if value is not None and not isinstance(value, (str, int)):
            self.refuse(path, "is no text")
        return "" if value is None else cells.words([str(value)])[0]

    def job_id(self, path: str) -> str:
        """Return a job id."""
        try:
            return cells.ids([self.word(path)])[0]
        except ValueError as error:
            self.refuse(path, str(error))

    def number(self, path: str) -> float:
        """Return a number, also in the form of newer Slurms: {"set": true, "infinite": false, "number": 4}."""
        value = self._at(path)
        if isinstance(value, dict):
            value = value.get("number") if value.get("set") else None
        if value is None:
            return float("nan")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= cells.LARGEST:
            self.refuse(path, "is no number")
        return float(value)

    def moment(self, path: str) -> float:
        """Return seconds since 1970."""
        try:
            return cells.moment(self.word(path))
        except ValueError as error:
            self.refuse(path, str(error))

    def items(self, path: str) -> list[Any]:
        """Return a list; a missing one is empty."""
        value = self._at(path)
        if value is not None and not isinstance(value, list):
            self.refuse(path, "is no list")
        return value or []

    def records(self, path: str) -> list[Record]:
        """Return a list of objects."""
        items = self.items(path)
        if not all(isinstance(item, dict) for item in items):
            self.refuse(path, "is no list of objects")
        return [Record(self.file, f"{self.name}, {path} {row}", item) for row, item in enumerate(items, start=1)]


def records(source: TraceFile, key: str = "") -> Iterator[Record]:
    """Yield the objects of the list in the file; with `key`: of the list under this key."""
    text = _Text(source)
    if key and not text.enter(key):
        text.refuse(f"has no list {key!r}")
    text.expect("[")
    if text.next_is("]"):
        return
    number = 1
    while True:
        value = text.value()
        if not isinstance(value, dict):
            text.refuse(f"job {number} is no object")
        yield Record(source.file, f"job {number}", value)
        if number % REPORT_INTERVAL_JOBS == 0:
            source.progress(number)
        if text.next_is("]"):
            return
        text.expect(",")
        number += 1


class _Text:
    """What has been read and not been used yet."""

    def __init__(self, source: TraceFile) -> None:
        self._source, self._text, self._at, self._ended = source, "", 0, False
        self._decoder = json.JSONDecoder()

    def refuse(self, what: str) -> NoReturn:
        raise UsageError(f"{self._source.file}: {what}; is the file cut short, or another format? (--format names it)")

    def enter(self, key: str) -> bool:
        """To the value of this key, past the others."""
        self.expect("{")
        while not self.next_is("}"):
            name = self.value()
            self.expect(":")
            if name == key:
                return True
            self.value()
            if self._peek() != "}":
                self.expect(",")
        return False

    def expect(self, character: str) -> None:
        if not self.next_is(character):
            self.refuse(f"is no JSON that is known here: {self._peek()!r} stands for {character!r}")

    def next_is(self, character: str) -> bool:
        """If so it is used."""
        found = self._peek() == character
        self._at += found
        return found

    def value(self) -> Any:
        """A value that ends where the text read so far ends may go on: it is read again with more."""
        self._peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
            except RecursionError:
                self.refuse("is nested too deeply")
            except ValueError as error:
                if self._ended or len(self._text) - self._at > LARGEST:
                    self.refuse(f"is no JSON: {str(error)[:80]}")
            self._more()

    def _peek(self) -> str:
        """The next character that is no space, "" at the end."""
        while True:
            found = _NO_SPACE.search(self._text, self._at)
            self._at = found.start() if found else len(self._text)
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._more()

    def _more(self) -> None:
        """As much again as there is, so that a large value is not decoded again for each piece of it."""
        rest = self._text[self._at :]
        new = self._source.read(max(PIECE, len(rest)))
        self._text, self._at, self._ended = rest + new, 0, not new
