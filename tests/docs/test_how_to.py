"""The pages for training programs: first how the environment gets the wheel, then the change to the program as a true diff."""

from __future__ import annotations

import ast
import difflib
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS / "examples"
# A framework each. The page of programs that save by themselves needs nothing in their environment.
FRAMEWORKS = ("ddp", "fsdp", "lightning", "own-program", "plain-pytorch", "submitit", "transformers")
PAGES = [DOCS / f"how-to/{name}.md" for name in FRAMEWORKS]
DIFF = re.compile(r"^```diff\n--- (\S+)\n\+\+\+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n((?:[ +-].*\n)+)", re.MULTILINE)


def before(changed: str, hunks: str) -> str:
    """The text that `hunks` change into `changed`. Raises AssertionError where they do not lead there."""
    lines, found, at = changed.splitlines(keepends=True), [], 0
    for _, _, start, _, body in HUNK.findall(hunks):
        rows = body.splitlines(keepends=True)
        old, new = ([row[1:] for row in rows if row[0] in kept] for kept in (" -", " +"))
        first = int(start) - 1
        assert lines[first : first + len(new)] == new, f"line {start} is not as the diff has it"
        found += lines[at:first] + old
        at = first + len(new)
    return "".join(found + lines[at:])


def shown(page: Path) -> tuple[str, str]:
    """The name of the example and the hunks of the page's diff."""
    ((old, new, hunks),) = DIFF.findall(page.read_text())
    assert old == new
    return new, hunks


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_environment_comes_first(page: Path) -> None:
    first = page.read_text().split("\n## ")[1]
    assert first.startswith("Install the training side\n")
    assert "conda activate train && pip install slurm-tiresias-checkpoint" in first
    assert "(environment.md)" in first


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_diff_makes_the_example(page: Path) -> None:
    """From a complete program without Tiresias; line numbers and context included."""
    name, hunks = shown(page)
    example = (EXAMPLES / name).read_text()
    plain = before(example, hunks)
    assert not re.search("tiresias|checkpointer|tsrun|tsbatch", plain)
    rows = difflib.unified_diff(plain.splitlines(True), example.splitlines(True), n=1)
    assert "".join(list(rows)[2:]) == hunks
    if name.endswith(".py"):
        ast.parse(plain)
        ruff = [sys.executable, "-m", "ruff", "check", "--quiet", "--isolated", "--select", "F,E9", "-"]
        done = subprocess.run(ruff, input=plain, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_a_diff_that_is_not_true_is_found() -> None:
    hunks = "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    assert before("a\nc\nd\n", hunks) == "a\nb\nd\n"
    with pytest.raises(AssertionError):
        before("a\nx\nd\n", hunks)
