"""Defects that the controller logs, and that end nothing: a job is set aside, or other implementations decide from then on.

An assertion within the product, or within the model that it calls, ends so. A test that does not read the log would pass.
"""

from __future__ import annotations

import logging

LOG = logging.getLogger("tiresias")


class LoggedDefects(logging.Handler):
    """The errors of the log since `begin`. The controller logs nothing else as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record."""
        self._found.append(record)

    def begin(self) -> None:
        """Listen to the log."""
        LOG.addHandler(self)

    def end(self) -> None:
        """Listen no longer."""
        LOG.removeHandler(self)

    def check(self) -> None:
        """Raise AssertionError for the first defect, from the error that the controller caught."""
        for record in self._found:
            raise AssertionError(record.getMessage()) from (record.exc_info or (None, None))[1]
