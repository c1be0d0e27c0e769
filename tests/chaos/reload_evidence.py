"""The judges of reloads (reload_judges.py) applied to what a campaign has recorded."""

from __future__ import annotations

import calendar
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing

from tests.chaos import reload_judges
from tests.chaos.cell_reloads import CellReloads
from tests.chaos.checks import Check
from tests.chaos.configurations import ACCEPTED, REFUSED, Order, Stretch, at, stretches
from tests.chaos.guarantees import Shown
from tests.chaos.reload_judges import Around, EndedRun, around
from tests.chaos.samples import Sampler, controller_outages
from tests.chaos.scene import Scene, task_name
from tests.chaos.windows import Window, Windows

LOST = re.compile(r"(?P<time>[-0-9]+ [:0-9]+),(?P<ms>[0-9]+) WARNING .* does not have now")
SHOWS_ENDED_S = 35.0  # until the nodes have registered again
PREEMPTED = """select count(*) from intent where id = ? and began between ? and ?
and (kind in ('resize', 'renew') or kind = 'preempt' and beneficiary != '')"""
RELEASES = "select id, began from intent where kind in ('preempt', 'resize', 'renew')"
RELEASED_S = 20.0  # from the decision that a job releases its GPUs to its end


class ReloadEvidence:
    """What a campaign has recorded.

    Attributes:
        in_force: The times in which the configuration is known.
    """

    def __init__(
        self, reloads: CellReloads, scene: Scene, sampler: Sampler, shown: Sequence[tuple[float, Shown]]
    ) -> None:
        """shown: complete samples, with the epoch second of the cycle."""
        self._reloads, self._scene, self._sampler, self._shown = reloads, scene, sampler, shown
        self._restarts = controller_outages(scene.deaths(), sampler.samples)
        self.in_force: list[Stretch] = stretches(reloads.records, self._restarts, reloads.layouts)

    def add(
        self,
        check: Check,
        tenant_of: Mapping[str, str],
        gpus: Mapping[str, int],
        blind: Sequence[tuple[float, float]],
        killed: Sequence[tuple[float, float]],
    ) -> None:
        """Add the evidence of all judges to the check.

        Args:
            check: The check.
            tenant_of: The virtual cluster of each job by name.
            gpus: The GPUs of each job by name.
            blind: Epoch seconds between which a daemon was down.
            killed: Epoch seconds between which slurmctld was killed, after which it shows ended jobs for a while.
        """
        forgetful = Windows([Window(first, last + SHOWS_ENDED_S) for first, last in killed])
        records, layouts = self._reloads.records, self._reloads.layouts
        down = Windows([Window(first, last) for first, last in blind])
        check.evidence["reload_answers"] = [
            *reload_judges.answers(records, self._restarts, layouts, self.in_force, down),
            *filter(None, (self._refused_wrongly(order, tenant_of, check.windows) for order in records.orders)),
        ]
        check.evidence["reload_cells"], seen = reload_judges.cells(self._sampler.samples, self.in_force, layouts)
        check.evidence["reload_took"] = list(self._took(check, tenant_of, gpus))
        times = [(one.first, one.last) for one in records.orders]
        times += [(one.first, one.last) for one in records.hangups]
        check.evidence["reload_ended"], ended = reload_judges.ended(self._ended_runs(check), times, check.windows)
        check.evidence["reload_unlogged"] = reload_judges.unlogged(records, down)
        cycles = sorted(sample.published for sample in self._sampler.samples)
        check.evidence["invalid_restarts"], refused = reload_judges.restarts(
            self._scene.deaths(), records, layouts, cycles, self._scene.log()
        )
        samples, lines = [one for _, one in self._shown], _times(self._scene.log())
        calm = [one for one in self._restarts if not forgetful.touch(*one)]
        check.evidence["restart_took"], changed = reload_judges.lost(
            calm, lines, samples, self.in_force, layouts, tenant_of, self._restarts
        )
        check.judged |= {
            "restarts_with_less": changed,
            "reloads": len(records.orders),
            "reloads_accepted": sum(one.outcome == ACCEPTED for one in records.orders),
            "reloads_refused": sum(one.outcome == REFUSED for one in records.orders),
            "hangups_refused": sum(bool(one.line) for one in records.hangups),
            "starts_refused": refused,
            "reloads_seen": len(list(self._seen())),
            "cells_at_reloads": sum(len(seen.before.guaranteed) for _, seen in self._seen()),
            "cells_compared": seen,
            "runs_ended_at_reloads": ended,
        }

    def _seen(self) -> Iterator[tuple[Order, Around]]:
        """The orders around which complete samples show the queue."""
        for order in self._reloads.records.orders:
            if found := around(self._shown, order):
                yield order, found

    def _refused_wrongly(self, order: Order, tenant_of: Mapping[str, str], windows: Windows) -> str:
        layouts, before = self._reloads.layouts, at(self.in_force, order.first)
        seen = around(self._shown, order)
        if not before or layouts[order.layout].refusal or windows.touch(order.first - 1, order.last):
            return ""
        job = reload_judges.refused_job(order)
        if job and windows.touch(order.first - 1, order.last, (self._task(job, order.first),)):
            return ""
        return reload_judges.refused_wrongly(order, layouts[before], layouts[order.layout], seen, tenant_of, self._task)

    def _task(self, job: str, moment: float) -> str:
        """Return which job, or which task of an array, bore the id."""
        return task_name(job, self._sampler.name(job, moment))

    def _took(self, check: Check, tenant_of: Mapping[str, str], gpus: Mapping[str, int]) -> Iterator[str]:
        windows = Windows([*check.windows.found, *self._releases(check)])
        for order, seen in self._seen():
            if after := at(self.in_force, order.last):
                yield from reload_judges.took(seen, self._reloads.layouts[after], tenant_of, gpus, windows)

    def _releases(self, check: Check) -> Iterator[Window]:
        """Yield when jobs were releasing their GPUs: such a job runs, and holds no cells any more."""
        with closing(sqlite3.connect(f"file:{check.journal}?mode=ro", uri=True)) as db:
            for job, began in db.execute(RELEASES).fetchall():
                yield Window(began, began + RELEASED_S, self._task(job, began))

    def _ended_runs(self, check: Check) -> Iterator[EndedRun]:
        with closing(sqlite3.connect(f"file:{check.journal}?mode=ro", uri=True)) as db:
            for run in check.logged:
                if run.name not in check.shaken:
                    found = db.execute(PREEMPTED, (run.id, run.start - 1, run.end + 1)).fetchone()[0]
                    yield EndedRun(run.name, run.start, run.end, run.state, bool(found))


def _times(log: Iterable[str]) -> list[float]:
    """Return when a controller logged that jobs have lost their cells, epoch seconds."""
    found = [line for line in map(LOST.match, log) if line]
    return [calendar.timegm(time.strptime(one["time"], "%Y-%m-%d %H:%M:%S")) + int(one["ms"]) / 1000 for one in found]
