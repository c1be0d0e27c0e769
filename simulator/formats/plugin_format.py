"""Trace formats of installed packages. Whatever one does wrong is a PluginError in one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from tiresias.errors import TiresiasError
from tiresias.scheduler.plugin import PluginError, one_line
from tiresias.simulator.formats.trace_columns import TraceColumns
from tiresias.simulator.formats.trace_file import TraceFile
from tiresias.simulator.formats.trace_format import TraceFormat

GROUP = "tiresias.trace_formats"

Result = TypeVar("Result")


def accepted(name: str, package: str, found: Any) -> TraceFormat:
    """The registered object with checked calls. Raises PluginError for one that is no `TraceFormat`."""
    if not isinstance(found, TraceFormat):
        raise PluginError(GROUP, name, package, f"a TraceFormat is expected, and it is a {type(found).__name__}")

    def checked(what: str, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except TiresiasError:
            raise
        except Exception as error:
            raise PluginError(
                GROUP, name, package, one_line(f"{what} failed: {type(error).__name__}: {error}")
            ) from error

    def read(source: TraceFile) -> TraceColumns:
        columns = checked("read()", lambda: found.read(source))
        if problem := checked("its result", lambda: _problem(columns, found.exact)):
            raise PluginError(GROUP, name, package, f"read() returned {problem}")
        return columns

    return replace(
        found, read=read, recognises=lambda head: bool(checked("recognises()", lambda: found.recognises(head)))
    )


def _problem(columns: TraceColumns, exact: bool) -> str:
    """What is wrong with the columns; "" for nothing."""
    if not isinstance(columns, TraceColumns):
        return f"a {type(columns).__name__} in place of TraceColumns"
    rows = len(columns.job_id)
    for each in fields(columns):
        column = getattr(columns, each.name)
        empty = each.name not in ("submit", "gpus", "duration") and not len(column)
        if each.name != "dropped" and len(column) != rows and not empty:
            return f"{len(column)} rows in column {each.name} and {rows} jobs"
    numbers = np.stack([columns.submit, columns.duration, columns.gpus - 1]) if exact else np.zeros((1, 0))
    return "" if (numbers >= 0).all() and np.isfinite(numbers).all() else "times below 0, or a job without GPUs"
