"""The error tree.

TiresiasError         anything that can be reported to a user in one line; exit code 1
├── UsageError        the command line, a trace or the config is wrong; exit code 2
├── Unavailable       something outside is not there now (slurmctld, network, disk); trying again may help
└── CorruptCheckpoint a checkpoint or a control file is not what its writer committed

A message states what happened, to which job or file, and what to do. Commands print it on standard error without a traceback.
"""

from __future__ import annotations


class TiresiasError(Exception):
    """An error that is reported to the user in one line."""

    exit_code = 1


class UsageError(TiresiasError):
    """The command line, a trace or the configuration is wrong."""

    exit_code = 2


class Unavailable(TiresiasError):
    """Not now, as opposed to never: the caller may try again."""


class CorruptCheckpoint(TiresiasError):
    """It is not what its writer committed, or was never committed. The message names the folder and the damage."""


def one_line(text: object) -> str:
    """`text` without anything that moves a terminal's cursor: a message may name a file or a job that a user named."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))
