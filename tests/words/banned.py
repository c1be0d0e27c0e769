"""The banned words, and where a text uses them.

Identifiers are split first: `SeatedJob` and `seated_job` both read "seated job". A person may say, know and want, so a
hit directly after "users", "the admin", "you" and the like is none. `whose` is plain English for things and not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.words.trees import folder_of

_PEOPLE = (
    r"(?:users?|admins?|administrators?|people|persons?|anyone|everyone|someone|those|authors?|owners?|readers?|operators?"
    r"|contributors?|maintainers?|you|he|she|they|reviewers?|developers?)"
)
_MODAL = r"(?:\s+(?:may|must|can|cannot|could|should|would|will|do|does|did|not|only|also|to|never|always|who))*"

# Each group: one rule of the vocabulary, or one row of its table.
WORDS = {
    "person words for things": r"who|whom|whoever|nobody|somebody|his|him|ours|theirs",
    "we": r"we|our",
    "verbs of persons": (
        r"(?<!\.)(?:tell|tells|told|telling)|say|says|said|saying|hear|hears|heard|hearing|know|knows|knew|knowing"
        r"|want|wants|wanted|wanting|believe|believes|believed|believing|think|thinks|thought"
    ),
    "make room": (
        r"mak(?:e|es|ing)\s+(?:room|way)|made\s+(?:room|way)|mov(?:e|es|ed|ing)\s+aside"
        r"|stand(?:s|ing)?\s+(?:by|aside)|stood\s+(?:by|aside)"
    ),
    "to be had": r"(?:to|can|could|cannot)\s+be\s+had|what\s+(?:it|they|he)\s+had|had\s+GPUs",
    "dialect": (
        r"seat|seats|seated|seating|room|rooms|offer|offers|offered|bell|bells|wishes|wish|treatment|treatments|understood"
        r"|outlook|outlooks|picture|pictures|deed|deeds|patience|patient|youth|young|youngest|younger"
    ),
    "behind": r"behind",
    "a look": r"(?:an?|the|each|every|next|first|last|one|this|two|three|between|per|of)\s+looks?|looks?\s+again|looked\s+again",
    "adverbs": r"by\s+and\s+by|in\s+the\s+end|beside\s+(?:it|them|him|that|those|these)",
    "riddles": r"the\s+most\s+first|(?:a|no|one)\s+victim\s+more|it\s+walks|say\s+it\s+again",
}
# Words with an everyday meaning are banned as names of modules and classes only.
NAMES = r"line|lines|hands|moves|marks|bound|verb|verbs|look|looks"

_PATTERN = re.compile(
    rf"(?P<person>\b{_PEOPLE}{_MODAL}\s+)?\b(?:"
    + "|".join(f"(?P<g{number}>{words})" for number, words in enumerate(WORDS.values()))
    + r")\b",
    re.IGNORECASE,
)
_FOR_PEOPLE = {list(WORDS).index(group) for group in ("person words for things", "verbs of persons")}
_NAME = re.compile(rf"^(?:class\s+(?:{NAMES})\b)", re.IGNORECASE | re.MULTILINE)
_IDENTIFIER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")
_LEADER = re.compile(r"\n[ \t]*(?:#+|//+|\*+|--+|>+)?[ \t]*")


@dataclass(frozen=True)
class Hit:
    """One use of a banned word.

    Attributes:
        line: The line number, from 1.
        group: The key of WORDS.
        word: The word as it is written, in lower case.
        text: The whole line.
    """

    path: str
    line: int
    group: str
    word: str
    text: str

    @property
    def folder(self) -> str:
        return folder_of(self.path)


def hits_of(path: str, text: str) -> Iterator[Hit]:
    """Find the banned words of one file, its path included."""
    lines = text.split("\n")
    plain = _LEADER.sub("\n", "\n" + _IDENTIFIER.sub(" ", text))
    for group, start, word in _found(plain):
        number = plain.count("\n", 0, start)
        yield Hit(path, number, group, re.sub(r"\s+", " ", word.lower()), lines[number - 1].strip())
    for part in re.split(r"[/._]", path):
        if re.fullmatch(rf"{NAMES}|{WORDS['dialect']}|behind", part, re.IGNORECASE):
            yield Hit(path, 1, "file name", part, path)


def _found(plain: str) -> Iterator[tuple[str, int, str]]:
    for match in _PATTERN.finditer(plain):
        number = next(number for number in range(len(WORDS)) if match[f"g{number}"])
        if not (match["person"] and number in _FOR_PEOPLE):
            yield list(WORDS)[number], match.start(f"g{number}"), match[f"g{number}"]
    for match in _NAME.finditer(plain):
        yield "class name", match.start(), match[0]
