"""Which back end serves: pyslurm where its worker starts, else Slurm's commands."""

from __future__ import annotations

from tiresias.errors import UsageError
from tiresias.slurm_plugin.backends.commands import CommandsBackend
from tiresias.slurm_plugin.backends.interface import Backend, SlurmUnavailable
from tiresias.slurm_plugin.backends.pyslurm import PyslurmBackend

CALL_DEADLINE = 20.0  # seconds for one call to Slurm: twice its MessageTimeout
NAMES = ("auto", "pyslurm", "commands")


def open_backend(name: str = "auto", deadline: float = 10.0) -> Backend:
    """Return a back end. `deadline`: seconds for each call to Slurm; its `why` contains the reason of the choice of "auto".

    Raises UsageError for an unknown name, SlurmUnavailable when pyslurm was asked for and cannot be used.
    """
    if name not in NAMES:
        raise UsageError(f"no back end {name!r}: choose one of {', '.join(NAMES)}")
    if name == "commands":
        return CommandsBackend(deadline)
    pyslurm = PyslurmBackend(deadline)
    try:
        pyslurm.start_worker()
    except SlurmUnavailable as error:
        if name == "pyslurm":
            raise
        commands = CommandsBackend(deadline)
        commands.why = f"commands, because {error}"
        return commands
    pyslurm.why = "pyslurm, because its worker started" if name == "auto" else ""
    return pyslurm
