"""The manual: it builds without a warning, its commands run and print what it shows, its messages are the programs' own."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from tests.checkout import SOURCE_FOLDERS
from tiresias.__main__ import parser_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted({ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")} - {*(DOCS / "generated").rglob("*")})
REASONS = {
    "set-up": "installs; the tests run in what it makes",
    "half an hour": "a replay of 480 real jobs; tests/sandbox/replay runs a small one",
    "pytorch": "tests/checkpoint/adapters/test_examples.py runs these programs",
    "elsewhere": "tests/slurm_plugin/controller/test_controller_examples.py submits it",
    "a site": "needs root, systemd and accounting; tests/etc/test_deb.py installs the package in a fresh Debian",
}
MESSAGE = re.compile(r"^```\{code-block\} text\n:class: message\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TROUBLESHOOTING = ("troubleshooting-jobs.md", "troubleshooting-controller.md")  # in this order, after the tutorial
LETTERS = 12  # of a source's string that can vouch for a message


def load(file: Path) -> ModuleType:
    """Known by its name from then on: they import each other so."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CONSOLE, TERMINALS = load(DOCS / "console.py"), load(Path(__file__).with_name("terminals.py"))
COMMANDS = load(DOCS / "pages.py").commands()


# -- what is run ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def typed(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """`typed(page, ...)` types all that the pages show, in a folder that looks like a checkout."""
    name = f"manual-{os.getpid()}"
    here = tmp_path / "checkout"
    here.mkdir()
    (here / "docs").symlink_to(DOCS)
    terminals = TERMINALS.Terminals(name, here, environment(tmp_path / "bin", name))

    def go(steps: list[tuple[Path, object]]) -> None:
        for page, step in steps:
            terminals.do(page, step)

    yield go
    terminals.close()
    down = [sys.executable, "-m", "tiresias", "sandbox", "down", "--name", name]
    subprocess.run(down, check=False, capture_output=True, timeout=60)  # nothing to do where a page did it


def environment(folder: Path, cluster: str) -> dict[str, str]:
    """With the programs of this Python, where "the private cluster" is the test's own."""
    folder.mkdir()
    program = folder / "tiresias"
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = sandbox ]; then action=$2; shift 2; set -- sandbox "$action" --name {cluster} "$@"; fi\n'
        f'exec {sys.executable} -m tiresias "$@"\n'
    )
    program.chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SBATCH_"))}
    return kept | {"PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "80"}


def steps(page: Path) -> list[tuple[Path, object]]:
    return [(page, step) for block in CONSOLE.blocks(page) if not block.reason for step in block.steps]


@pytest.mark.sandbox
@pytest.mark.slow
def test_the_tutorial_and_what_may_go_wrong(typed: Callable[..., None]) -> None:
    """Troubleshooting goes on where the tutorial ends, before its clean-up."""
    *tutorial, clean_up = steps(DOCS / "tutorial/first-preemption.md")
    wrong = [step for name in TROUBLESHOOTING for step in steps(DOCS / "how-to" / name)]
    typed([*tutorial, *wrong, clean_up])


@pytest.mark.sandbox
def test_the_readme(typed: Callable[..., None]) -> None:
    typed(steps(ROOT / "README.md"))


# the last one's are run where the manual is built
APART = ("README.md", "first-preemption.md", *TROUBLESHOOTING, "algorithm.md")
OTHERS = [page for page in PAGES if page.name not in APART and steps(page)]


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.stem)
def test_another_page(page: Path, typed: Callable[..., None]) -> None:
    typed(steps(page))


def test_what_is_not_run_has_a_reason() -> None:
    skipped = Counter(block.reason for page in PAGES for block in CONSOLE.blocks(page) if block.reason)
    for reason, count in skipped.items():
        print(f"{count} blocks are not run: {reason}: {REASONS.get(reason)}")
    assert set(skipped) <= set(REASONS)
    run = sum(len(steps(page)) for page in PAGES)
    assert run > 5 * sum(skipped.values()), "most of what is shown is run"


def test_every_console_block_is_found() -> None:
    for page in PAGES:
        assert page.read_text().count("```console") == len(CONSOLE.blocks(page)), page


def test_every_example_has_its_page() -> None:
    shown = "".join(page.read_text() for page in (DOCS / "how-to").glob("*.md"))
    for script in (DOCS / "examples").glob("*.sh"):
        assert f"../examples/{script.name}" in shown, script
        assert re.search(rf"\.\./examples/{script.stem}(\.py)?\n", shown), script


def test_an_answer_is_compared() -> None:
    step = CONSOLE.Step("", "x", 1, ["job 1 is ...", "...", "  Q2"])
    assert step.is_answered_by("\njob 1   is running\nand more\nQ2 \n")
    assert step.is_answered_by("job 1 is running\nQ2")
    assert not step.is_answered_by("job 1 is running\nand more\nQ3\n")
    assert not step.is_answered_by("job 11 is running\nx\nQ2\n")


# -- messages in the text -------------------------------------------------------------------------------------------------


@cache
def templates() -> list[re.Pattern[str]]:
    """Of all strings in the programs; what they fill in may be anything."""
    found = {
        _template(node)
        for folder in SOURCE_FOLDERS
        for file in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.JoinedStr | ast.Constant)
    }
    return [re.compile(each) for each in found if len(re.sub(r"\\.|[^a-zA-Z]", "", each)) >= LETTERS]


def _template(node: ast.JoinedStr | ast.Constant) -> str:
    """Anything in the place of what an f-string or str.format fills in."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = (
        re.sub(r"\\\{\w*(:[^{}]*)?\\\}", ".+", re.escape(part.value))
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
        else ".+"
        for part in parts
    )
    return "".join(texts)


MESSAGES = [
    pytest.param(line, id=line[:40])
    for page in PAGES
    for block in MESSAGE.findall(page.read_text())
    for line in block.splitlines()
]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_one_of_the_programs(message: str) -> None:
    assert any(template.search(message) for template in templates())


def test_a_message_that_no_program_prints_is_found() -> None:
    assert not any(
        template.search("waits: 4 GPUs asked for, fewer remain after higher-ranked jobs; so")
        for template in templates()
    )


def mentioned() -> Iterator[tuple[str, str]]:
    """Page and command line, in text and in blocks."""
    for page in PAGES:
        for found in re.finditer(r"(?:`|^ {4}|\$ )(tiresias [a-z][^`\n]*)", page.read_text(), re.MULTILINE):
            yield str(page.relative_to(ROOT)), re.split(r" {2,}| -- |[|;>&#]", found[1])[0]


@pytest.mark.parametrize(("page", "line"), sorted(set(mentioned())))
def test_a_command_that_is_mentioned_exists(page: str, line: str) -> None:
    words = line.split()[1:]
    two = " ".join(words[:2])
    name = two if two in COMMANDS or (words[0] == "sandbox" and len(words) > 1 and words[1].isalpha()) else words[0]
    assert name in COMMANDS
    parser = parser_of(f"tiresias {name}", COMMANDS[name][0])
    known = set(re.findall(r"--[\w-]+", parser.format_help() + (parser.description or "")))
    assert {word.partition("=")[0].rstrip(".,") for word in words if word.startswith("--")} <= known


# -- what is built --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_builds_without_a_warning(tmp_path: Path) -> None:
    """Links within the manual included."""
    shutil.copytree(DOCS, tmp_path / "docs", ignore=shutil.ignore_patterns("generated"))
    words = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-D", "figure_jobs=40"]
    folders = [str(tmp_path / "docs"), str(tmp_path / "html")]
    done = subprocess.run([*words, *folders], capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for page in DOCS.rglob("*.md"):
        assert (tmp_path / "html" / page.relative_to(DOCS).with_suffix(".html")).exists(), page
    for name in COMMANDS:
        assert f"tiresias {name}" in (tmp_path / "html/generated/commands.html").read_text(), name
    reported = "".join(page.read_text() for page in (tmp_path / "html").rglob("*.html"))
    assert os.environ["PATH"] not in reported, "the environment of the build"
