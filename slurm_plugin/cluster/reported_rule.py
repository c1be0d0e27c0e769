"""A rule of tenants whose cells another thread may request between two decisions."""

from __future__ import annotations

import gc
import threading
from collections.abc import Sequence

from tiresias.scheduler.model import Plan, Snapshot
from tiresias.scheduler.pools import PoolDecision
from tiresias.scheduler.tenants.cell_report import CellReport
from tiresias.scheduler.tenants.tenant_rule import TenantPolicy, TenantRule

DECISION_WAIT_S = 2.0  # a policy of an installed package may never return


class ReportedRule:
    """The rule of the controller's thread; `report` may be called from the thread of the control socket.

    A report takes 20 ms for 1000 nodes, and a decision that begins meanwhile waits for it.
    """

    def __init__(self, rule: TenantRule, wait_s: float = DECISION_WAIT_S) -> None:
        """wait_s: seconds for which a report waits for a decision."""
        self._rule, self._wait_s, self._lock = rule, wait_s, threading.Lock()
        self._frozen = 0
        self._last: dict[bool, CellReport | None] = {}  # by whether it has trees

    def decide(self, snapshot: Snapshot, tenants: Sequence[TenantPolicy]) -> tuple[Plan, tuple[PoolDecision, ...]]:
        """Return the rule's decision. Raises UsageError as the rule does.

        All parts are made here: those of idle virtual clusters depend on cells that the next decision changes.
        """
        with self._lock:
            plan, parts = self._rule.decide(snapshot, tenants)
            for part in parts:
                _ = part.plan
            self._freeze()
            return plan, parts

    def _freeze(self) -> None:
        """Exclude new cells from garbage collections, of which each full one would visit all of them: 1 s for 16,000 nodes."""
        if self._rule.cells_built != self._frozen:
            self._frozen = self._rule.cells_built
            gc.unfreeze()  # the cells before, which contain references in circles
            gc.collect()
            gc.freeze()

    def report(self, *, trees: bool = True) -> CellReport | None:
        """Return the rule's report of the newest decision; the last one where a decision takes too long."""
        if self._lock.acquire(timeout=self._wait_s):
            try:
                self._last[trees] = self._rule.report(trees=trees)
            finally:
                self._lock.release()
        return self._last.get(trees)
