"""What a master copy and its job report to each other: a planned migration, and what has happened to the tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tiresias.services.parameter_service.aggregator.master_copy import MasterCopy


@dataclass(slots=True)
class PlannedMove:
    """A migration that begins with an update.

    Attributes:
        to: Address of the new master.
        epoch: The epoch that begins there.
        planned: When it was planned, in seconds of time.monotonic().
        within_s: Seconds without an update after which the tensor leaves without one.
        paced_s: Seconds in which the tensor leaves only with an update whose idle window has the time for its copy.
    """

    to: str
    epoch: int
    planned: float
    within_s: float
    paced_s: float


class JobOfCopies(Protocol):
    """What a master copy reports to its job."""

    def left(self, copy: MasterCopy) -> None:
        """The tensor is to be copied to another aggregator."""
        ...

    def all_pushed(self, copy: MasterCopy) -> None:
        """Each rank has pushed once since this aggregator has the tensor."""
        ...

    def admits(self, copy: MasterCopy) -> bool:
        """Return whether the next idle window has the time to copy the tensor."""
        ...

    def pushing(self) -> None:
        """A push begins to arrive."""
        ...

    def updated(self, copy: MasterCopy) -> None:
        """An update was made."""
        ...

    def pulled(self, copy: MasterCopy) -> None:
        """Each rank has been sent the parameters since the last update."""
        ...
