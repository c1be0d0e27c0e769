"""The newest starts in the cells of virtual clusters, returned again while nothing has changed on which they depend."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tiresias.scheduler.model import Bools, Ints
from tiresias.scheduler.tenants.guaranteed_starts import GuaranteedStarts

Order = Callable[[Bools], Ints]  # the rows of chosen jobs, shape (jobs,), in the order of their ranks


class KeptStarts:
    """The starts of the newest decision, and the orders on which they depend."""

    def __init__(self) -> None:
        self._newest: GuaranteedStarts | None = None
        self._orders: list[tuple[Bools, Ints]] = []

    def of(
        self, order: Order, bound: Callable[[Order], GuaranteedStarts], *, only_times_differ: bool
    ) -> tuple[GuaranteedStarts, bool]:
        """Return the starts, and whether they are kept.

        Args:
            order: Returns the order of chosen jobs.
            bound: Returns the starts. Of service and times they depend by the orders that it calls for.
            only_times_differ: Whether all that it reads was the same at the newest decision, but for service and times.
        """
        if only_times_differ and self._newest is not None and self._are_ordered_by(order):
            return self._newest, True
        self._orders = []
        self._newest = bound(lambda chosen: self._recorded(chosen, order))
        return self._newest, False

    def _are_ordered_by(self, order: Order) -> bool:
        return all(np.array_equal(order(chosen), found) for chosen, found in self._orders)

    def _recorded(self, chosen: Bools, order: Order) -> Ints:
        self._orders.append((chosen, order(chosen)))
        return self._orders[-1][1]
