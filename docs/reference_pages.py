"""Writes the pages of the manual that are generated from the programs: commands, configuration, the Python interface."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path

import environment_page
import pages
import status_page

from tiresias.__main__ import parser_of
from tiresias.slurm_plugin.commands.check_config import toml
from tiresias.slurm_plugin.config import Option, options

WIDTH = 100
GROUPS = ("Users", "Administrators", "The private cluster")
ADAPTERS = ("torch", "ddp", "fsdp", "lightning", "hf", "hook")


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    made = {
        "commands": commands(),
        "configuration": configuration(),
        "python": python(),
        "status": status_page.lines(),
        "environment": environment_page.lines(),
    }
    for name, lines in made.items():
        (folder / f"{name}.md").write_text("\n".join(lines) + "\n")


def commands() -> Iterator[str]:
    yield "# Commands\n\nThe output of `--help`. The man pages contain the same; `tiresias(1)` lists them."
    for group in GROUPS:
        yield f"\n## {group}"
        for name, (module, what) in pages.commands().items():
            if group == _group(name):
                yield f"\n### tiresias {name}\n\n{_sentence(what)}\n\n````text\n{_help(name, module)}````"
        if group == GROUPS[0]:
            yield from (_wrapper(name, what) for name, what in pages.WRAPPERS.items())


def _group(command: str) -> str:
    return GROUPS[2] if command.startswith("sandbox") else GROUPS[pages.section(command) == 8]


def _help(name: str, module: str) -> str:
    parser = parser_of(f"tiresias {name}", module)
    parser.formatter_class = partial(argparse.RawDescriptionHelpFormatter, width=WIDTH)  # type: ignore[assignment]
    return parser.format_help()


def _wrapper(name: str, what: str) -> str:
    text = import_module(f"tiresias.wrappers.{name}").__doc__ or ""
    return f"\n### {name}\n\n{_sentence(what)}\n\n````text\n{text.strip()}\n````"


def _sentence(words: str) -> str:
    """With a capital letter, but not where a file's name begins it."""
    first, blank, rest = words.rstrip(".").partition(" ")
    return f"{first[:1].upper() + first[1:] if first.isalpha() else first}{blank}{rest}."


def configuration() -> Iterator[str]:
    yield f"# Configuration\n\nIn this order: {pages.ORDER}. `etc/tiresias.toml` shows every option with its default.\n"
    section = None
    for option in options().values():
        if option.section != section:
            section = option.section
            yield f"\n## {f'[{section}]' if section else 'Outside of any section'}\n"
        yield _option(option)


def _option(option: Option) -> str:
    text = f"{_sentence(option.doc)} Allowed: {option.allowed}. In the environment: `{option.variable}`."
    return f"`{option.name} = {toml(option.default)}`\n: {text}\n"


def python() -> Iterator[str]:
    package = import_module("tiresias.checkpoint")
    yield "# Python interface\n\n`from tiresias.checkpoint import Checkpointer`, and the adapters of the frameworks.\n"
    yield "## tiresias.checkpoint\n\n```{eval-rst}"
    yield from (_documented(name, getattr(package, name)) for name in package.__all__)
    yield "```"
    for name in ADAPTERS:
        yield f"\n## tiresias.checkpoint.adapters.{name}\n\n````text\n{_words(name)}\n````"


def _documented(name: str, value: object) -> str:
    if not isinstance(value, type):
        return f".. data:: tiresias.checkpoint.{name}\n   :value: {value!r}\n"
    kind = "exception" if issubclass(value, Exception) else "class"
    return f".. auto{kind}:: tiresias.checkpoint.{name}" + "\n   :members:" * (kind == "class")


def _words(adapter: str) -> str:
    """Of its file, as importing it takes the framework."""
    file = Path(import_module("tiresias.checkpoint.adapters").__file__ or "").with_name(f"{adapter}.py")
    return ast.get_docstring(ast.parse(file.read_text())) or ""
