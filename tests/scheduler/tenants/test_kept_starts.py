"""Starts in the cells of virtual clusters that are kept while the orders on which they depend are equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiresias.scheduler.model import Bools, Ints
from tiresias.scheduler.tenants.guaranteed_starts import GuaranteedStarts
from tiresias.scheduler.tenants.hardware_demand import HardwareDemand
from tiresias.scheduler.tenants.kept_starts import KeptStarts, Order

CHOSEN = np.array([True, False, True])


def test_starts_are_kept_until_an_order_that_they_called_for_changes(snapshot_of: Any) -> None:
    kept, rows = KeptStarts(), [0, 2]

    def order(chosen: Bools) -> Ints:
        assert chosen.tolist() == CHOSEN.tolist()
        return np.array(rows)

    def bound(ordered: Order) -> GuaranteedStarts:
        ordered(CHOSEN)
        snapshot = snapshot_of([], [])
        return GuaranteedStarts(HardwareDemand(snapshot, np.zeros(0, np.bool_)))

    first, _ = kept.of(order, bound, only_times_differ=False)
    assert kept.of(order, bound, only_times_differ=True) == (first, True)
    rows.reverse()
    other, is_kept = kept.of(order, bound, only_times_differ=True)
    assert not is_kept
    assert other is not first
    assert kept.of(order, bound, only_times_differ=False)[0] is not other
