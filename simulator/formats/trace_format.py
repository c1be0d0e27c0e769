"""A trace format: a function that recognises a file and a function that reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tiresias.simulator.formats.trace_columns import TraceColumns
from tiresias.simulator.formats.trace_file import TraceFile


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """A trace format.

    Attributes:
        description: The format in words.
        recognises: Called with the beginning of a file, some thousand characters; returns whether it is this format.
        read: Reads the jobs of a file.
        exact: Whether a job that cannot be replayed is an error; of other formats such jobs are dropped and counted.
    """

    description: str
    recognises: Callable[[str], bool]
    read: Callable[[TraceFile], TraceColumns]
    exact: bool = False


def has_columns(head: str, *columns: str, delimiter: str = ",") -> bool:
    """Return whether the first line is a header with all of these columns."""
    return {*columns} <= {name.strip() for name in head.partition("\n")[0].split(delimiter)}
