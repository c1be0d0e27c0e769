"""Where the manager places a job's tensors."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tiresias.errors import TiresiasError, Unavailable, UsageError, one_line
from tiresias.protocol.job_log import log_line
from tiresias.services.parameter_service.agent.manager_link import ManagerLink
from tiresias.services.parameter_service.messages.manager_messages import Locations, PlaceTensors

PLACE_TIMEOUT_S = 600.0  # the Slurm jobs of new aggregators may have to wait for nodes
PAUSE_S = 0.2
_LOGGED_AFTER_S = 10.0


class ManagerDirectory:
    """The manager's table of one job.

    Args:
        link: To the manager.
        timeout_s: How long the first placement may take.
    """

    def __init__(self, link: ManagerLink, timeout_s: float = PLACE_TIMEOUT_S) -> None:
        self._link, self._timeout_s = link, timeout_s
        self._known: dict[str, str] = {}
        self._complete = False

    def assign(self, sizes: Mapping[str, int]) -> dict[str, str]:
        """Return the address of each tensor, once all aggregators of the job run.

        Raises:
            UsageError: The manager refuses the tensors, such as one of another size than before, or splits one of them.
            Unavailable: It does not place them in time.
        """
        began, logged = time.monotonic(), False
        while not (found := self._placed(sizes)):
            waited = time.monotonic() - began
            if waited > self._timeout_s:
                raise Unavailable(f"parameter service: no aggregators for the tensors within {self._timeout_s:g} s")
            if waited > _LOGGED_AFTER_S and not logged:
                log_line("parameter service: waiting for aggregators")
                logged = True
            time.sleep(PAUSE_S)
        if any(f"{name}#1" in found and f"{name}#1" not in sizes for name in sizes):
            raise UsageError("the manager splits tensors: declare fewer servers for so small a model")
        self._known = found
        return {name: found[name] for name in sizes}

    def addresses(self) -> list[str]:
        """Return the aggregators of the job by the manager's table; the last known ones while it cannot be reached."""
        self._complete = False
        try:
            _, found = self._link.request(Locations())
        except TiresiasError as error:
            log_line(f"parameter service: {one_line(error)}")
            found = {}
        self._complete = bool(found)
        self._known = found or self._known
        return list(dict.fromkeys(self._known.values()))

    def is_complete(self) -> bool:
        """Return whether the last addresses were all of the manager's table: it was reached, and all aggregators run."""
        return self._complete

    def _placed(self, sizes: Mapping[str, int]) -> dict[str, str]:
        """Return the placement, {} while it is not ready or the manager cannot be reached."""
        try:
            _, found = self._link.request(PlaceTensors(), dict(sizes))
        except Unavailable:
            return {}
        return {str(name): str(address) for name, address in found.items()}
