"""The console blocks of a page: what is typed and what it answers. The manual's figures and its tests run them.

    ```console
    $ tiresias sandbox up --nodes 1
    default: Slurm ... 1 nodes x 4 GPUs, all idle
    alice$ tsbatch train.sh
    Submitted batch job 1
    ```

A prompt without a name is a shell on the own machine, one with a name `tiresias sandbox shell --user NAME`. Lines that begin with
"> " continue the command before them. "..." in an answer stands for anything; a command without an answer may print anything.
A block that is not run has its reason in the line above it: <!-- not run: pytorch -->
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

BLOCK = re.compile(
    r"^(?: *<!-- not run: (?P<reason>[\w -]+) -->\n)?(?P<indent> *)```console\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
PROMPT = re.compile(r"(?P<user>[a-z]*)\$ (?P<command>.*)")


@dataclass(slots=True)
class Step:
    """user: the user in the private cluster; "" for the own machine. line: its number in the page."""

    user: str
    command: str
    line: int
    answer: list[str] = field(default_factory=list)

    def is_answered_by(self, output: str) -> bool:
        """Blanks and line ends count as one blank; an answer that is not shown may be any."""
        expected = [re.escape(part) for part in " ".join(self.answer).split("...")]
        pattern = re.sub(r"(\\?\s)+", r"\\s+", ".*?".join(expected))
        spaced = re.sub(r"\s+", "  ", f" {output} ")  # two, so that "..." between two blanks may stand for nothing
        return not self.answer or re.fullmatch(rf"\s*{pattern}\s*", spaced) is not None


@dataclass(frozen=True, slots=True)
class Block:
    """reason: why it is not run; "" for one that is."""

    reason: str
    steps: tuple[Step, ...]


def blocks(page: Path) -> list[Block]:
    """Raises ValueError for a block that does not begin with a prompt."""
    text = page.read_text()
    return [
        Block(found["reason"] or "", tuple(_steps(dedent(found["text"]), text.count("\n", 0, found.start("text")) + 1)))
        for found in BLOCK.finditer(text)
    ]


def _steps(text: str, first: int) -> Iterator[Step]:
    step: Step | None = None
    for number, line in enumerate(text.splitlines(), first):
        if typed := PROMPT.fullmatch(line):
            if step:
                yield step
            step = Step(typed["user"], typed["command"], number)
        elif step is None:
            raise ValueError(f"line {number}: a console block begins with a prompt, not with {line!r}")
        elif line.startswith("> ") and not step.answer:
            step.command += f"\n{line[2:]}"
        else:
            step.answer.append(line)
    if step:
        yield step
