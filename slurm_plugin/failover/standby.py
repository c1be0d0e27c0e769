"""Waiting for the lead, and saying meanwhile who has it."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError, Unavailable
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.lead.leadership import Leadership
from tiresias.slurm_plugin.sockets.peer import Peer
from tiresias.slurm_plugin.state.journal import epoch_of

log = logging.getLogger("tiresias")

HAND_OVER_NOTE = "lead"  # a note to the leader: hand over


class AnotherLeads(TiresiasError):
    pass


def leadership_of(config: Config) -> Leadership:
    """Of the controllers that share this state folder."""
    return Leadership(Path(config.paths.state) / "leader", config.leader_seconds)


@contextmanager
def leading(config: Config) -> Iterator[Leadership]:
    """No controller works there meanwhile, and who led before cannot any more. Raises AnotherLeads."""
    leadership = leadership_of(config)
    Standby(leadership, Path(config.paths.state)).obtain()
    try:
        yield leadership
    finally:
        leadership.step_down()


class Standby:
    """`called`: whether the slurmctld of this host has just become the primary one, so that we should lead."""

    def __init__(self, leadership: Leadership, state: Path, called: Callable[[], bool] = lambda: False) -> None:
        self._leadership, self._state, self._called = leadership, state, called
        self._polite_until = -math.inf

    def wait(self, stand: Callable[[float], bool]) -> bool:
        """True once we lead. `stand` waits for so many seconds, or less; False as soon as it says so.

        Raises Unavailable when the state folder cannot be used at all; later troubles of the file system are waited for.
        """
        told = ""
        leads = self._take() if time.monotonic() > self._polite_until else False
        while not leads:
            if self.words != told:
                told = self.words
                log.info("%s", told)
            if not stand(self._leadership.pause):
                return False
            leads = self._try()
        log.info("leading, in epoch %d", self._leadership.epoch)
        self._leadership.done(HAND_OVER_NOTE)
        return True

    def after_you(self) -> None:
        """Who asked for the lead has a lease's time to take it."""
        self._polite_until = time.monotonic() + self._leadership.seconds

    @property
    def words(self) -> str:
        return f"this controller is a standby: {self._leadership.lease()} leads"

    def obtain(self) -> None:
        """Lead at once, or as soon as the one who led is known to be dead. Raises AnotherLeads."""
        end = time.monotonic() + self._leadership.seconds + 2 * self._leadership.pause
        while not self._take():
            if self._leadership.seen_alive or time.monotonic() > end:
                raise AnotherLeads(f"another controller leads: {self._leadership.lease()}; stop that one first")
            time.sleep(self._leadership.pause)

    def answer(self, _request: dict[str, Any], _peer: Peer) -> Mapping[str, Any]:
        """To viewers: they are to ask elsewhere."""
        raise Unavailable(f"{self.words}; ask there")

    def _take(self) -> bool:
        return self._leadership.take(above=epoch_of(self._state))

    def _try(self) -> bool:
        try:
            self._leadership.stand_by()
            if self._called():
                log.info("slurmctld is the primary one here: asking for the lead")
                self._leadership.tell(HAND_OVER_NOTE)
            polite = self._leadership.lease().released and time.monotonic() < self._polite_until
            return not polite and self._take()
        except Unavailable as error:
            log.warning("%s; trying again", error)
            return False
