"""The standby: it waits for the lead, and answers requests with the name of the leader."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tiresias.durable.leadership import Leadership
from tiresias.errors import TiresiasError, Unavailable
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.sockets.peer import Peer
from tiresias.slurm_plugin.state.journal import epoch_of

log = logging.getLogger("tiresias")

HAND_OVER_NOTE = "lead"  # a note that asks the leader to hand over


class AnotherLeads(TiresiasError):
    """Another controller leads."""


def leadership_of(config: Config) -> Leadership:
    """Return the leadership of the controllers that share this state folder."""
    return Leadership(Path(config.paths.state) / "leader", config.leader_seconds)


@contextmanager
def leading(config: Config) -> Iterator[Leadership]:
    """Take the lead for the duration of a block. Raises AnotherLeads if a controller leads."""
    leadership = leadership_of(config)
    Standby(leadership, Path(config.paths.state)).obtain()
    try:
        yield leadership
    finally:
        leadership.step_down()


class Standby:
    """Waits for the lead.

    Args:
        called: Whether the slurmctld of this host has just become the primary one, so that this controller should lead.
    """

    def __init__(self, leadership: Leadership, state: Path, called: Callable[[], bool] = lambda: False) -> None:
        self._leadership, self._state, self._called = leadership, state, called
        self._yields_until = -math.inf

    def wait(self, stand: Callable[[float], bool]) -> bool:
        """Wait until this controller leads; return False if `stand` does.

        Args:
            stand: Waits for so many seconds or less, and returns False to give up.

        Raises:
            Unavailable: The state folder cannot be used at the first attempt; later errors are retried.
        """
        logged = ""
        leads = self._take() if time.monotonic() > self._yields_until else False
        while not leads:
            if self.words != logged:
                logged = self.words
                log.info("%s", logged)
            if not stand(self._leadership.pause):
                return False
            leads = self._try()
        log.info("leading, in epoch %d", self._leadership.epoch)
        self._leadership.done(HAND_OVER_NOTE)
        return True

    def yield_lead(self) -> None:
        """Leave the lead to the controller that requested it, for the duration of a lease."""
        self._yields_until = time.monotonic() + self._leadership.seconds

    @property
    def words(self) -> str:
        """The state of this controller, as one line."""
        return f"this controller is a standby: {self._leadership.lease()} leads"

    def obtain(self) -> None:
        """Take the lead at once, or as soon as the last leader is known to be dead. Raises AnotherLeads."""
        end = time.monotonic() + self._leadership.seconds + 2 * self._leadership.pause
        while not self._take():
            if self._leadership.seen_alive or time.monotonic() > end:
                raise AnotherLeads(f"another controller leads: {self._leadership.lease()}; stop that one first")
            time.sleep(self._leadership.pause)

    def answer(self, _request: dict[str, Any], _peer: Peer) -> Mapping[str, Any]:
        """Refuse a request; the message names the leader, or reports that the first cycle of this one has not begun."""
        if self._leadership.epoch:
            raise Unavailable(
                "this controller has just taken the lead and has not seen Slurm yet; try again in a moment"
            )
        raise Unavailable(f"{self.words}; ask there")

    def _take(self) -> bool:
        return self._leadership.take(above=epoch_of(self._state))

    def _try(self) -> bool:
        try:
            self._leadership.announce_standby()
            if self._called():
                log.info("slurmctld is the primary one here: asking for the lead")
                self._leadership.leave_note(HAND_OVER_NOTE)
            yields = self._leadership.lease().released and time.monotonic() < self._yields_until
            return not yields and self._take()
        except Unavailable as error:
            log.warning("%s; trying again", error)
            return False
