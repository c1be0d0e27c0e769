"""`tiresias COMMAND`: finds the module that is the command, and turns errors into one line.

A command is a module with a docstring (its help), `configure(parser)` and `run(args) -> int`. It is imported only when it
is asked for, so that `tiresias status` never pays for the sandbox and a broken extra never breaks another command.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import NoReturn, Protocol, cast

from tiresias import __version__
from tiresias.errors import TiresiasError, one_line

COMMANDS = {
    "controller": ("tiresias.slurm_plugin.commands.controller", "the daemon that ranks, starts and preempts jobs"),
    "reload": ("tiresias.slurm_plugin.commands.reload", "have the controller read its configuration again"),
    "pause": ("tiresias.slurm_plugin.commands.pause", "preempt no more jobs until resume"),
    "resume": ("tiresias.slurm_plugin.commands.resume", "end a pause; let stopped controllers start again"),
    "stop": ("tiresias.slurm_plugin.commands.stop", "end the controller; --release: for good, on all hosts"),
    "deadman": ("tiresias.slurm_plugin.commands.deadman", "release what a dead or hung controller holds"),
    "status": ("tiresias.slurm_plugin.commands.status", "queues, jobs, nodes and the last decisions"),
    "explain": ("tiresias.slurm_plugin.commands.explain", "why a job waits, runs or was preempted"),
    "progress": (
        "tiresias.slurm_plugin.commands.progress_command",
        "how far a job is: its losses, their fit, its predicted end",
    ),
    "cells": ("tiresias.slurm_plugin.commands.cells_command", "what virtual clusters own, use and could start now"),
    "services": ("tiresias.slurm_plugin.commands.services_command", "the parameter service: its aggregators and jobs"),
    "history": ("tiresias.slurm_plugin.commands.history", "what users and jobs had, and what preemptions cost"),
    "ledger": ("tiresias.slurm_plugin.commands.ledger", "compare the ledger with Slurm's accounting; rebuild it"),
    "metrics": ("tiresias.slurm_plugin.commands.metrics", "the controller's state as OpenMetrics, for Prometheus"),
    "check-config": ("tiresias.slurm_plugin.commands.check_config", "read a configuration and name its mistakes"),
    "doctor": ("tiresias.slurm_plugin.commands.doctor", "what stands in the way on this cluster, and what to do"),
    "sandbox": ("tiresias.sandbox.commands", "a private Slurm cluster on this machine"),
    "simulate": ("tiresias.simulator.commands.simulate", "replay a trace through the scheduling core"),
    "whatif": ("tiresias.simulator.commands.whatif", "what this cluster's own jobs would have had; before installing"),
    "tune": (
        "tiresias.simulator.commands.tune",
        "the best knobs for a site's own jobs, and what they would have gained",
    ),
    "cells replay": (
        "tiresias.simulator.commands.cells_replay",
        "replay recorded decisions on cells of virtual clusters",
    ),
    "vc": ("tiresias.simulator.commands.vc_command", "virtual clusters: the cells that each tenant needs"),
    "profile": ("tiresias.slurm_plugin.commands.profile", "what a job sent, and the placement that follows from it"),
    "interference": (
        "tiresias.simulator.commands.interference_command",
        "how much jobs on shared nodes slow each other, from measurements",
    ),
    "placement": (
        "tiresias.simulator.commands.placement_command",
        "train a network that places jobs, and compare it with the other styles",
    ),
    "workload": ("tiresias.simulator.commands.workload", "generate a workload for simulate and replay"),
    "rehearse": (
        "tiresias.sandbox.rehearse.rehearse_command",
        "run, preempt and resume a script of yours; reports what is missing",
    ),
    "checkpoint": ("tiresias.checkpoint.command", "list, verify and prune checkpoints"),
}


class Command(Protocol):
    """The module of a command."""

    __doc__: str | None

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Run the command; return its exit code."""
        ...


class CommandParser(argparse.ArgumentParser):
    """A parser that reports a mistake in one line: the usage of some commands has forty."""

    def error(self, message: str) -> NoReturn:
        """End with exit code 2."""
        self.exit(2, f"{self.prog}: {one_line(message)}; see {self.prog} --help\n")


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        return _dispatch(argv)
    except TiresiasError as error:
        print(f"tiresias: {one_line(error)}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # `tiresias status | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def _dispatch(argv: list[str]) -> int:
    for words in (2, 1):
        if (command := " ".join(argv[:words])) in COMMANDS:
            return run_module(f"tiresias {command}", COMMANDS[command][0], argv[words:])
    return _top_level(argv)


def run_module(prog: str, module: str, argv: list[str]) -> int:
    """Only this one is imported, so that `tiresias status` starts at once."""
    return cast(Command, import_module(module)).run(parser_of(prog, module).parse_args(argv))


def parser_of(prog: str, module: str) -> argparse.ArgumentParser:
    """Return the argument parser of a command."""
    command = cast(Command, import_module(module))
    parser = CommandParser(prog=prog, description=command.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.configure(parser)
    return parser


def _top_level(argv: list[str]) -> int:
    parser = CommandParser(
        prog="tiresias",
        description="\n".join(f"  {name:14} {text}" for name, (_, text) in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="tiresias COMMAND [options]   (COMMAND --help for more)",
    )
    parser.add_argument("--version", action="version", version=f"tiresias {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of the above")
    parser.parse_args(argv or ["--help"])
    return 2


if __name__ == "__main__":
    sys.exit(main())
