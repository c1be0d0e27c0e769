"""The manager's lead, renewed by its loop. While it cannot be renewed, the manager does nothing that the next leader could undo."""

from __future__ import annotations

from tiresias.durable.leadership import BEATS, Leadership
from tiresias.errors import Unavailable, one_line
from tiresias.protocol.job_log import log_line


class RenewedLead:
    """The lead as the loop's thread sees it.

    Args:
        leadership: The lead that was taken.
    """

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._problem = ""
        self._next_s = 0.0

    def renewed(self, now_s: float) -> bool:
        """Renew the lead where that is due, and return whether it is held: a folder that cannot be reached leaves it in doubt.

        Raises:
            Superseded: Another manager leads.
        """
        if now_s < self._next_s:
            return not self._problem
        self._next_s = now_s + self._leadership.seconds / (2 * BEATS)
        try:
            self._leadership.renew()
        except Unavailable as error:
            if not self._problem:
                log_line(f"parameter service: the lead cannot be renewed: {one_line(error)}; waiting")
            self._problem = one_line(error)
            return False
        if self._problem:
            log_line("parameter service: the lead is renewed; continuing")
        self._problem = ""
        return True

    def check(self) -> None:
        """Check the lead before an operation.

        Raises:
            Superseded: Another manager leads.
            Unavailable: The lead is in doubt.
        """
        self.check_known()
        self._leadership.check()

    def check_known(self) -> None:
        """Check what the last renewal has found. Raises Unavailable."""
        if self._problem:
            raise Unavailable(f"the manager waits for its lead: {self._problem}")
