"""The uses of banned words that stay, each with its reason: allowed.txt."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from tests.words.banned import Hit

FILE = Path(__file__).with_name("allowed.txt")


@dataclass(frozen=True)
class Kept:
    """The rows of allowed.txt.

    Attributes:
        rows: Path pattern, word, part of the line ("" for any), reason.
    """

    rows: list[tuple[str, str, str, str]]

    @classmethod
    def read(cls, file: Path = FILE) -> Kept:
        """Read allowed.txt; a row without a reason is an error."""
        rows = []
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                path, word, part, reason = _columns(line, f"{file.name}:{number}")
                rows.append((path, word, part, reason))
        return cls(rows)

    def reason(self, hit: Hit) -> str:
        """Return why a use stays, "" if no row names it."""
        matches = (
            reason
            for path, word, part, reason in self.rows
            if word == hit.word and fnmatch(hit.path, path) and part.lower() in hit.text.lower()
        )
        return next(matches, "")


def _columns(line: str, place: str) -> list[str]:
    columns = [column.strip() for column in line.split("|")]
    if len(columns) != 4 or not columns[3]:
        raise SystemExit(f"{place}: not path | word | part of the line | reason")
    return columns
