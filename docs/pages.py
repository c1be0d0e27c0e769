"""Writes the man pages and the shells' completions, from the very parsers and options that the programs use.

    python docs/pages.py build      build/man/man1/tiresias-status.1 ..., build/completions/tiresias.bash, _tiresias, tiresias.fish

Needs argparse-manpage and shtab (the dependency group dev).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import shtab
from argparse_manpage.manpage import Manpage

from tiresias import __version__
from tiresias.__main__ import COMMANDS, parser_of
from tiresias.sandbox import commands as sandbox
from tiresias.simulator.commands import placement_command, vc_command
from tiresias.slurm_plugin.commands.check_config import toml
from tiresias.slurm_plugin.config import options

# section 8
ADMINS = ("controller", "check-config", "deadman", "doctor", "ledger", "metrics", "pause", "reload", "resume", "stop")
WRAPPERS = {"tsbatch": "sbatch for jobs that can be preempted", "tsrun": "srun inside such a job"}
ORDER = "flags, then TIRESIAS_* in the environment, then conf.d/*.toml beside the file, then the file, then the default"
GROUPS = {
    "sandbox": sandbox.ACTIONS,
    "placement": placement_command.ACTIONS,
    "vc": vc_command.ACTIONS,
}  # commands with actions
COMPLETIONS = {"bash": "tiresias.bash", "zsh": "_tiresias", "fish": "tiresias.fish"}


def main() -> None:
    folder = Path(sys.argv[1])
    for name, text in {**pages(), **completions()}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def commands() -> dict[str, tuple[str, str]]:
    """Module and purpose of all, also of the actions of a group ("sandbox up")."""
    every = [(f"{group} {name}", module) for group, actions in GROUPS.items() for name, module in actions.items()]
    return {**COMMANDS, **{name: (module, _purpose(module)) for name, module in every}}


def _purpose(module: str) -> str:
    first = (import_module(module).__doc__ or "").partition("\n")[0]
    return first.rstrip(".")


def pages() -> dict[str, str]:
    """By the file's path below the folder."""
    found = {f"{page_name(name)}.{section(name)}": command_page(name, *row) for name, row in commands().items()}
    found |= {f"{name}.1": wrapper_page(name, what) for name, what in WRAPPERS.items()}
    found |= {"tiresias.1": overview(), "tiresias.toml.5": configuration()}
    return {f"man/man{name[-1]}/{name}": text for name, text in found.items()}


def page_name(command: str) -> str:
    return "-".join(["tiresias", *command.split()])


def section(command: str) -> int:
    return 8 if command in ADMINS else 1


def command_page(name: str, module: str, what: str) -> str:
    page = Manpage(parser_of(f"tiresias {name}", module), format="pretty")
    page.prog, page.section, page.description = page_name(name), section(name), what
    page.source, page.manual = f"tiresias {__version__}", "Tiresias"
    return str(page)


def wrapper_page(name: str, what: str) -> str:
    """Of a program whose options are Slurm's; its own words are its module's."""
    text = import_module(f"tiresias.wrappers.{name}").__doc__ or ""
    return _page(name, 1, what, "DESCRIPTION", text)


def overview() -> str:
    rows = "\n".join(f"{name:14}{what}" for name, (_, what) in COMMANDS.items())
    text = f"tiresias COMMAND [options]\n\n{rows}\n\nEach has a page of its own: tiresias-status(1), tiresias-controller(8)."
    return _page("tiresias", 1, "preemptive scheduling of deep-learning jobs on Slurm", "COMMANDS", text)


def configuration() -> str:
    text = "\n\n".join(
        f"{each.key} = {toml(each.default)}\n    {each.doc}\n    Allowed: {each.allowed}."
        for each in options().values()
    )
    tables = (
        "[policy.partitions.NAME]\n    The keys of [policy] for one managed partition; others are as in [policy].\n"
        "    Partitions that share nodes need the same policy."
    )
    return _page(
        "tiresias.toml", 5, "the controller's configuration", "OPTIONS", f"In this order: {ORDER}\n\n{text}\n\n{tables}"
    )


def _page(name: str, number: int, what: str, heading: str, text: str) -> str:
    """Text as it stands, line by line."""
    lines = [_roff(line) for line in text.strip().splitlines()]
    head = f'.TH {name.upper()} "{number}" "" "tiresias {__version__}" "Tiresias"'
    return "\n".join([head, ".SH NAME", _roff(f"{name} - {what}"), f".SH {heading}", ".nf", *lines, ".fi", ""])


def _roff(line: str) -> str:
    escaped = line.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def completions() -> dict[str, str]:
    return {f"completions/{file}": shtab.complete(whole_parser(), shell) for shell, file in COMPLETIONS.items()}


def whole_parser() -> argparse.ArgumentParser:
    """All commands in one, as no start of the program makes it: it would import everything."""
    parser = argparse.ArgumentParser(prog="tiresias")
    parser.add_argument("--version", action="version", version=__version__)
    _add(parser, COMMANDS)
    return parser


def _add(parser: argparse.ArgumentParser, rows: Mapping[str, tuple[str, str]]) -> None:
    kinds, added = parser.add_subparsers(), dict[str, argparse.ArgumentParser]()
    for name, (module, what) in rows.items():
        first, _, second = name.partition(" ")
        at = added[first].add_subparsers() if second else kinds
        command = added[name] = at.add_parser(second or name, help=what)
        if name in GROUPS:
            _add(command, {action: (module, _purpose(module)) for action, module in GROUPS[name].items()})
        else:
            import_module(module).configure(command)


if __name__ == "__main__":
    main()
