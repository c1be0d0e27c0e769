"""Every command has help with an example, a man page and completions in three shells: the parsers are walked."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tiresias.__main__ import parser_of
from tiresias.slurm_plugin.config import options

FILE = Path(__file__).parents[2] / "docs/pages.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pages", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = load()
COMMANDS = PAGES.commands()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    done = subprocess.run(
        [sys.executable, str(FILE), str(folder)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def parser(command: str) -> argparse.ArgumentParser:
    return parser_of(f"tiresias {command}", COMMANDS[command][0])


def words(command: str) -> set[str]:
    """Its long options."""
    return {word for action in parser(command)._actions for word in action.option_strings if word.startswith("--")}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str) -> None:
    assert f"tiresias {command}" in (parser(command).description or "")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_man_page_has_every_option(command: str, written: Path) -> None:
    number = PAGES.section(command)
    text = (written / f"man/man{number}/{PAGES.page_name(command)}.{number}").read_text().replace("\\-", "-")
    assert words(command) - {"--help"} <= set(re.findall(r"--[\w-]+", text))


def test_man_pages_are_well_formed(written: Path) -> None:
    if not shutil.which("groff"):
        pytest.skip("groff is not here")
    for page in written.glob("man/*/*"):
        done = subprocess.run(
            ["groff", "-man", "-ww", "-z", str(page)], capture_output=True, text=True, timeout=60, check=False
        )
        assert not [line for line in done.stderr.splitlines() if "can't break line" not in line], page.name


def test_every_option_of_the_configuration_has_its_paragraph(written: Path) -> None:
    text = (written / "man/man5/tiresias.toml.5").read_text()
    assert [key for key in options() if f"\n{key} = " not in text] == []


@pytest.mark.parametrize("shell", PAGES.COMPLETIONS)
def test_completions_have_every_command_and_option(shell: str, written: Path) -> None:
    file = written / "completions" / PAGES.COMPLETIONS[shell]
    text = file.read_text()
    for command in COMMANDS:
        assert re.search(rf"\b{command.split()[-1]}\b", text), command
        for word in words(command):
            assert re.search(rf"{word}\b|-l '?{word[2:]}\b", text), (command, word)
    if program := shutil.which(shell):
        subprocess.run([program, "-n", str(file)], check=True, timeout=60)
