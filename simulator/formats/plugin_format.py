"""Trace formats of installed packages. Whatever one does wrong is a PluginError in one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from tiresias.errors import TiresiasError
from tiresias.scheduler.plugin import CALL_TIMEOUT_S, PluginError, guarded
from tiresias.simulator.formats.trace_columns import TraceColumns
from tiresias.simulator.formats.trace_file import TraceFile
from tiresias.simulator.formats.trace_format import TraceFormat

GROUP = "tiresias.trace_formats"
READ_TIMEOUT_S = 600.0  # a trace of millions of jobs takes minutes

Result = TypeVar("Result")


def accepted(name: str, package: str, found: Any) -> TraceFormat:
    """Return the registered object with limited and checked calls. Raises PluginError for one that is no `TraceFormat`."""
    if not isinstance(found, TraceFormat):
        raise PluginError(GROUP, name, package, f"a TraceFormat is expected, and it is a {type(found).__name__}")

    def limited(limit_s: float, what: str, call: Callable[[], Result]) -> Result:
        """Raises PluginError where the call fails or exceeds the limit; other errors of Tiresias are the file's, and stay."""
        try:
            return guarded(GROUP, name, package, limit_s, what, call)
        except PluginError as error:
            if isinstance(error.__cause__, TiresiasError):
                raise error.__cause__ from None
            raise

    def read(source: TraceFile) -> TraceColumns:
        columns = limited(READ_TIMEOUT_S, "read()", lambda: found.read(source))
        if problem := limited(READ_TIMEOUT_S, "its result", lambda: _problem(columns, found.exact)):
            raise PluginError(GROUP, name, package, f"read() returned {problem}")
        return columns

    def recognises(head: str) -> bool:
        return limited(CALL_TIMEOUT_S, "recognises()", lambda: bool(found.recognises(head)))

    return replace(found, read=read, recognises=recognises)


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
