"""A rule of tenants whose cells another thread may request between two decisions."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tiresias.scheduler.model import Plan, Snapshot
from tiresias.scheduler.pools import PoolDecision
from tiresias.scheduler.tenants.cell_report import CellReport
from tiresias.scheduler.tenants.tenant_rule import TenantPolicy, TenantRule


class ReportedRule:
    """The rule of the controller's thread; `report` may be called from the thread of the control socket.

    A report takes some milliseconds for 1000 nodes, and a decision that begins meanwhile waits for it.
    """

    def __init__(self, rule: TenantRule) -> None:
        self._rule, self._lock = rule, threading.Lock()

    def decide(self, snapshot: Snapshot, tenants: Sequence[TenantPolicy]) -> tuple[Plan, tuple[PoolDecision, ...]]:
        """Return the rule's decision. Raises UsageError as the rule does."""
        with self._lock:
            return self._rule.decide(snapshot, tenants)

    def report(self, *, trees: bool = True) -> CellReport | None:
        """Return the rule's report of the newest decision."""
        with self._lock:
            return self._rule.report(trees=trees)
