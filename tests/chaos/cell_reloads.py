"""Reloads while jobs run: other tables [[virtual_cluster]], valid and invalid ones, also shortly before or after a SIGKILL.

The file is replaced, and `tiresias reload` orders the controller to read it; an invalid one also by SIGHUP, so that the controller
itself refuses it. What was refused does not stay: the layout before is written again, and a reload confirms it. What was done is
recorded for the judges (configurations.py, reload_judges.py).
"""

from __future__ import annotations

import random
import re
import subprocess
import time
from collections.abc import Callable, Mapping

from tests.chaos.cell_layouts import TAKES, Layout, layouts
from tests.chaos.configurations import ACCEPTED, REFUSED, UNANSWERED, Hangup, Order, Records, Version
from tests.chaos.remedies import SEEN_AFTER
from tests.chaos.scene import tasks
from tests.chaos.tenant_scene import TenantScene, TenantTroubles
from tiresias.errors import TiresiasError

EVERY_S = (6.0, 18.0)  # between two changes, at least and at most
INVALID_SHARE = 0.4
ORDER_TIMEOUT_S = 30.0
LOG_TIMEOUT_S = 10.0
SETTLE = "a configuration that is in force"
STYLES = {
    "": 8, "controller killed before": 2, "controller killed meanwhile": 3, "controller killed after": 2,
    "slurmctld killed before": 1, "slurmctld killed after": 1,
}  # fmt: skip


class CellReloads:
    """Changes the configuration from time to time.

    Attributes:
        layouts: All layouts by name.
        records: What was done.
    """

    def __init__(self, scene: TenantScene, troubles: TenantTroubles, seed: int, report: Callable[[str], None]) -> None:
        self._scene, self._troubles, self._report = scene, troubles, report
        self._dice = random.Random(f"reloads of {seed}")
        self.layouts: Mapping[str, Layout] = layouts(scene.tenants)
        self.records = Records([Version(0.0, 0.0, "base")])
        self._in_force, self._settles, self._next = "base", False, time.time() + self._dice.uniform(*EVERY_S)
        self._removed: dict[str, float] = {}  # when a virtual cluster was removed
        self._ends = False

    def change_if_due(self) -> None:
        """Change the configuration where the last change is settled and the next one due."""
        if self._settles or time.time() < self._next:
            return
        self._next = time.time() + self._dice.uniform(*EVERY_S)
        name = self._choose()
        style = self._dice.choices(list(STYLES), list(STYLES.values()))[0]
        self._troubles.counts[f"reload: {name}"] += 1
        self._report(f"reload {name}{f', {style}' if style else ''}")
        try:
            self._change(name, style)
        except (TiresiasError, subprocess.TimeoutExpired, OSError) as error:
            self._report(f"reload failed: {str(error)[-80:]}")
            self._settle_later(2.0)

    def end(self) -> None:
        """Have the configuration of the beginning in force, as soon as the cells that jobs hold allow it."""
        self._ends = True
        self._settle_later(0.0)

    def _choose(self) -> str:
        if self._dice.random() < INVALID_SHARE:
            return self._dice.choice([name for name, each in self.layouts.items() if each.refusal])
        if self._removed:
            return "base"
        names = [name for name, each in self.layouts.items() if not each.refusal and name != self._in_force]
        return self._dice.choice(names)

    def _change(self, name: str, style: str) -> None:
        daemon, _, moment = style.partition(" killed ")
        if moment == "before":
            self._kill(daemon)
        self._write(name)
        order = self._order(self._dice.uniform(0.0, 1.5) if moment == "meanwhile" else None)
        if self.layouts[name].refusal and (daemon != "controller" or moment == "after"):
            self._hang_up()
        if moment == "after":
            self._kill(daemon)
        if order.outcome == ACCEPTED and moment != "after":
            return
        waits = self._dice.uniform(1.0, 4.0) if moment in ("after", "meanwhile") else 0.0
        self._settle_later(waits)

    def _kill(self, daemon: str) -> None:
        self._troubles.strike(f"kill_{daemon}", "", "a reload")

    def _settle_later(self, seconds: float) -> None:
        self._settles = True
        self._troubles.later(seconds, SETTLE, self._settle)

    def _settle(self) -> None:
        """Have a configuration in force and in the file. Raises TiresiasError to be called again."""
        if self._ends:
            self._in_force = "base"
        if self._ends or self.layouts[self.records.versions[-1].layout].refusal:
            self._write(self._in_force)
        if self._order().outcome == REFUSED:
            self._write(self._in_force)
            self._order()
        if self.records.orders[-1].outcome != ACCEPTED:
            raise TiresiasError(f"reload: {' '.join(self.records.orders[-1].words)}")
        self._settles = self._ends

    def _write(self, name: str) -> None:
        began = time.time()
        self._scene.change_virtual_clusters(self.layouts[name].tables)
        self.records.versions.append(Version(began, time.time(), name))

    def _order(self, kill_after: float | None = None) -> Order:
        """Order a reload and wait for its outcome. kill_after: seconds until the controller is killed."""
        name, began = self.records.versions[-1].layout, time.time()
        user = self._scene.cluster.spec.daemon_user
        words = ["timeout", str(ORDER_TIMEOUT_S), "tiresias", "reload", "--config", self._scene.config]
        pipe = subprocess.PIPE
        with self._scene.cluster.popen(words, user=user, text=True, stdout=pipe, stderr=pipe) as command:
            if kill_after is not None:
                time.sleep(kill_after)
                self._kill("controller")
            out, error = command.communicate(timeout=ORDER_TIMEOUT_S + 10)
        lines = tuple((error or out).strip().splitlines())
        order = Order(began, time.time(), name, _outcome(command.returncode, lines, self.layouts[name]), lines)
        self.records.orders.append(order)
        self._report(f"reload {name}: {order.outcome}: {' '.join(lines)[:160]}")
        if order.outcome == ACCEPTED:
            self._take_over(order)
        return order

    def _hang_up(self) -> None:
        """Have the controller itself read an invalid file, which stays until it has logged why it refuses it."""
        layout = self.layouts[self.records.versions[-1].layout]
        began, before, found = time.time(), len(self._scene.log()), ""
        self._scene.hang_up_controller()
        while time.time() < began + LOG_TIMEOUT_S and not found:
            new = self._scene.log()[before:]
            found = next((line for line in new if re.search(f"reload: .*{layout.refusal}", line)), "")
            time.sleep(0.1)
        self.records.hangups.append(Hangup(began, time.time(), layout.name, found))

    def _take_over(self, order: Order) -> None:
        """Note which jobs have lost cells that they may have been promised, or their virtual cluster."""
        before, after = self.layouts[self._in_force], self.layouts[order.layout]
        self._in_force = order.layout
        for name in self._scene.tenants:
            if name in before.tenants and name not in after.tenants:
                self._removed[name] = order.first
            first = self._removed.pop(name, order.first) if name in after.tenants else order.first
            if before.shrinks(name, after) or first != order.first:
                own = [job for job in self._scene.jobs.values() if name in self._troubles.accounts_of(job)]
                for task in {task for job in own for task in (job.name, *tasks(job))}:
                    self._troubles.changes.add(first - 1, order.last + SEEN_AFTER, task)


def _outcome(code: int, lines: tuple[str, ...], layout: Layout) -> str:
    if code == 0:
        return ACCEPTED
    refusals = [TAKES, *filter(None, [layout.refusal])]
    return REFUSED if any(re.search(pattern, line) for pattern in refusals for line in lines) else UNANSWERED
