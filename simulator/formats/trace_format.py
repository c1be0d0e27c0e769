"""What a format is: a line that tells it apart and a function that reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tiresias.simulator.formats.trace_columns import TraceColumns
from tiresias.simulator.formats.trace_file import TraceFile


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """recognises: is told the beginning of a file, some thousand characters. exact: made for us, so that a job that cannot be
    replayed is an error; of other traces such jobs are dropped and counted."""

    description: str
    recognises: Callable[[str], bool]
    read: Callable[[TraceFile], TraceColumns]
    exact: bool = False


def has_columns(head: str, *columns: str, delimiter: str = ",") -> bool:
    """Is the first line a header with all of these?"""
    return {*columns} <= {name.strip() for name in head.partition("\n")[0].split(delimiter)}
