"""Which back end serves: pyslurm where its worker starts and answers, else Slurm's commands."""

from __future__ import annotations

from tiresias.errors import UsageError
from tiresias.slurm_plugin.backends.commands import CommandsBackend
from tiresias.slurm_plugin.backends.protocol import Backend

NAMES = ("auto", "pyslurm", "commands")


def open_backend(name: str = "auto", deadline: float = 10.0) -> Backend:
    """`deadline`: seconds for each call. Raises UsageError for an unknown name."""
    if name not in NAMES:
        raise UsageError(f"no back end {name!r}: choose one of {', '.join(NAMES)}")
    return CommandsBackend(deadline)
