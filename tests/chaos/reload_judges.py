"""What reloads of virtual clusters (VCs) promise, judged in retrospect.

answers     orders to reload with another answer than that of the layout: an invalid one is refused in one line, a valid one is
            accepted, or refused where it takes cells from a job that runs in them; what was refused has changed nothing
cells       cells that the controller published, and that are not those of the configuration in force
took        running jobs that held cells before a reload and none after it, although it left them to their VC
ended       runs that ended at a reload for no other reason: they neither completed nor failed nor were preempted for another job
unlogged    invalid files that the controller was ordered to read, and that its log does not refuse
restarts    controllers that led with an invalid file, or ended although the file was valid
lost        restarts with a line in the log that jobs have lost their cells although the file was the same, and those without it
            although a VC that had jobs in cells was not declared any more
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.cell_layouts import TAKES, Layout
from tests.chaos.configurations import (
    ACCEPTED,
    NOTHING_CHANGED,
    REFUSED,
    UNANSWERED,
    Order,
    Records,
    Stretch,
    at,
)
from tests.chaos.guarantees import GAP, Shown
from tests.chaos.samples import Sample
from tests.chaos.tenants import Tenant
from tests.chaos.windows import Windows

USAGE_ERROR = 2  # exit code
JUST_S = 1e-3  # seconds before an order
ROUNDED_S = 1.0  # Slurm's times are whole seconds
EFFECT_S = 3.0  # seconds after a reload in which it could end runs: two cycles

Layouts = Mapping[str, Layout]


@dataclass(frozen=True, slots=True)
class Around:
    """What was shown of the queue before and after an order."""

    before: Shown
    after: tuple[Shown, Shown]

    @property
    def running(self) -> frozenset[str]:
        """The jobs that ran all the time."""
        return self.before.running & self.after[0].running & self.after[1].running

    @property
    def lost(self) -> set[str]:
        """Of these, those that held cells before and do not after."""
        later = self.after[0].guaranteed.keys() | self.after[1].guaranteed.keys()
        return {job for job in self.before.guaranteed if job in self.running and job not in later}

    @property
    def holders(self) -> set[str]:
        """All jobs that hold cells, before or after."""
        return {job for one in (self.before, *self.after) for job in one.guaranteed}

    def nodes(self, jobs: Iterable[str]) -> set[str]:
        """Return all nodes on which jobs hold cells."""
        shown = [one.guaranteed for one in (self.before, *self.after)]
        return {node for job in jobs for each in shown for node in each.get(job, ())}


def around(samples: Sequence[tuple[float, Shown]], order: Order) -> Around | None:
    """Return what complete samples show around an order; None where they do not. samples: with the second of the cycle."""
    before = [shown for _, shown in samples if order.first - GAP <= shown.time < order.first]
    after = [shown for cycle, shown in samples if cycle >= order.last and shown.time <= order.last + 2 * GAP]
    return Around(before[-1], (after[0], after[1])) if before and len(after) > 1 else None


def answers(
    records: Records,
    restarts: Sequence[tuple[float, float]],
    layouts: Layouts,
    in_force: Sequence[Stretch],
    blind: Windows,
) -> list[str]:
    """Return the orders with a wrong answer. blind: when a daemon was down, so that an order may have none."""
    broken = list[str]()
    for order in records.orders:
        excused = order.outcome == UNANSWERED and blind.touch(order.first - 1, order.last)
        if not excused and (wrong := _wrong(order, layouts[order.layout])):
            broken.append(f"{wrong}: {order}")
        same = order.outcome == ACCEPTED and order.layout == at(in_force, order.first - JUST_S)
        calm = not any(ended <= order.last and began >= order.first for ended, began in restarts)
        if same and calm and not any(NOTHING_CHANGED in line for line in order.words):
            broken.append(f"the configuration in force had changed: {order}")
    return broken


def _wrong(order: Order, layout: Layout) -> str:
    """Return what is wrong with an answer; "": nothing."""
    if order.outcome == UNANSWERED:
        return "an order without an answer of the controller"
    if order.outcome == REFUSED and len(order.words) != 1:
        return "a refusal in several lines"
    if layout.refusal and (order.outcome != REFUSED or not re.search(layout.refusal, order.words[0])):
        return "an invalid file"
    return ""


def refused_wrongly(
    order: Order, before: Layout, after: Layout, seen: Around | None, tenant_of: Mapping[str, str],
    name: Callable[[str, float], str],
) -> str:  # fmt: skip
    """Return why a refusal of a valid layout is wrong; "" where it is not, or where that is not known.

    With other racks than before, cells of any VC may be in the way; other samples than those of both sides prove nothing.
    """
    found = re.search(TAKES, order.words[0]) if order.outcome == REFUSED else None
    if found is None or seen is None or _racks(before) != _racks(after):
        return ""
    cluster, job = found[1], name(found[2], order.first)
    if seen.before.tenant(job, tenant_of) != cluster:
        return f"{job} is no job of {cluster}: {order}"
    if not before.shrinks(cluster, after):
        return f"{cluster} loses no cells: {order}"
    own = after.tenants.get(cluster)
    held = seen.nodes(job for job in seen.holders if seen.before.tenant(job, tenant_of) == cluster)
    if own is not None and not own.in_parts and 0 < len(held) <= own.nodes:
        return f"{cluster} keeps {own.nodes} nodes for its jobs on {sorted(held)}: {order}"
    return ""


def refused_job(order: Order) -> str:
    """Return the id of the job that a refusal names; "": none."""
    found = re.search(TAKES, order.words[0]) if order.outcome == REFUSED else None
    return found[2] if found else ""


def _racks(layout: Layout) -> set[str]:
    return {tenant.name for tenant in layout.tenants.values() if tenant.in_one_rack}


def cells(samples: Iterable[Sample], in_force: Sequence[Stretch], layouts: Layouts) -> tuple[list[str], int]:
    """Return also how many samples were judged."""
    broken, judged = dict[str, str](), 0
    for sample in samples:
        for stretch in in_force:
            if sample.is_complete and stretch.covers(sample.published, sample.time):
                judged += 1
                owned, own = {name: dict(each) for name, each in sample.owned.items()}, layouts[stretch.layout].owned
                if owned != own:
                    broken.setdefault(f"{stretch}", f"{owned}, not {dict(own)} as by {stretch} at {sample.time:.0f}")
    return list(broken.values()), judged


def took(
    seen: Around, after: Layout, tenant_of: Mapping[str, str], gpus: Mapping[str, int], windows: Windows
) -> list[str]:
    """Return the jobs that lost cells. after: the layout that is in force after the order.

    A job may lose them to another one of its VC, where that has not enough whole nodes for all of its jobs.
    """
    broken = []
    for job in sorted(seen.lost):
        name = seen.before.tenant(job, tenant_of)
        own = after.tenants.get(name)
        if windows.touch(seen.before.time - 1, seen.after[1].time, (job,)):
            continue
        if own is None or _has_too_few(seen, own, tenant_of):
            broken.append(f"{job} of {name} ran in cells that {after.name} takes from it")
        elif all(_fit(shown, own, tenant_of, gpus) for shown in (seen.before, *seen.after)):
            broken.append(f"{job} of {name} lost its cells although {name} has nodes for all of its jobs")
    return broken


def _has_too_few(seen: Around, own: Tenant, tenant_of: Mapping[str, str]) -> bool:
    before = seen.before
    held = [job for job in before.guaranteed if job in seen.running and before.tenant(job, tenant_of) == own.name]
    return len({node for job in held for node in before.guaranteed[job]}) > own.most_nodes


def _fit(shown: Shown, own: Tenant, tenant_of: Mapping[str, str], gpus: Mapping[str, int]) -> bool:
    jobs = [job for job in shown.waiting | shown.running if shown.tenant(job, tenant_of) == own.name]
    return own.holds([shown.sizes.get(job) or gpus[job] for job in jobs])


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run in Slurm's log. preempted: whether the journal has a preemption of it for another job, a change of its size, or its
    save before its time limit."""

    name: str
    start: float
    end: float
    state: str
    preempted: bool


def ended(runs: Iterable[EndedRun], orders: Iterable[tuple[float, float]], windows: Windows) -> tuple[list[str], int]:
    """Return also how many runs ended beside a reload. orders: epoch seconds of the order and of its answer."""
    times = list(orders)
    near = [
        run
        for run in runs
        if any(first - ROUNDED_S <= run.end <= last + EFFECT_S and run.start < first for first, last in times)
    ]
    broken = [
        f"{run.name} ended at a reload: {run}"
        for run in near
        if run.state not in ("COMPLETED", "FAILED")
        and not run.preempted
        and not windows.touch(run.end - EFFECT_S, run.end + ROUNDED_S, (run.name,))
    ]
    return broken, len(near)


def unlogged(records: Records, blind: Windows) -> list[str]:
    """Return the SIGHUPs without a line in the log. blind: when a daemon was down."""
    return [f"{one}" for one in records.hangups if not one.line and not blind.touch(one.first - 1, one.last)]


def restarts(
    deaths: Iterable[Mapping[str, Any]],
    records: Records,
    layouts: Layouts,
    cycles: Sequence[float],
    log: Sequence[str],
) -> tuple[list[str], int]:
    """Return also how many controllers refused to start.

    Args:
        deaths: The ends of controllers (lives.py).
        records: Versions of the file.
        layouts: All layouts by name.
        cycles: Epoch seconds of cycles that were published.
        log: Lines of the controller's log.
    """
    broken, refused, born = list[str](), list[str](), 0.0
    for one in (each for each in deaths if "life" in each):
        died = float(one["time"])
        led = next((cycle for cycle in cycles if born < cycle < died), None)
        if one["exit"] == USAGE_ERROR:
            refused.append(next((name for name in records.shown(born, died) if layouts[name].refusal), ""))
        elif born and led and all(layouts[name].refusal for name in records.shown(born, led)):
            broken.append(f"life {one['life']} led with {', '.join(records.shown(born, led))}")
        born = died
    broken += ["a controller ended although the file was valid"] * refused.count("")
    for name in {*refused} - {""}:
        if not any(re.search(f"tiresias: .*{layouts[name].refusal}", line) for line in log):
            broken.append(f"a controller ended at {name} without a line in the log")
    return broken, len(refused)


def lost(
    found: Iterable[tuple[float, float]],
    lines: Sequence[float],
    samples: Sequence[Shown],
    in_force: Sequence[Stretch],
    layouts: Layouts,
    tenant_of: Mapping[str, str],
    restarts: Iterable[tuple[float, float]] = (),
) -> tuple[list[str], int]:
    """Return also how many restarts with another file were judged.

    Args:
        found: The restarts, from the end of one controller to the first cycle of the next one.
        lines: Epoch seconds of the lines in the log.
        samples: Complete ones.
        in_force: As of `stretches`.
        layouts: All layouts by name.
        tenant_of: The VC of each job by name.
        restarts: All of them, also those that are not judged. A line after one of them is not of a restart before it.
    """
    broken, judged = list[str](), 0
    ends = [ended for ended, _ in restarts]
    for ended, began in found:
        before, after = at(in_force, ended - JUST_S), at(in_force, began + JUST_S)
        until = min([began + EFFECT_S, *(other for other in ends if other > ended)])
        is_logged = any(ended <= line <= until for line in lines)
        if before and before == after and is_logged:
            broken.append(f"a restart at {ended:.1f} took cells although the file was the same")
        elif before and after and (jobs := _without_tenant(samples, ended, began, layouts[after], tenant_of)):
            judged += 1
            if not is_logged:
                broken.append(
                    f"a restart at {ended:.1f} took the cells of {', '.join(sorted(jobs))} without a line in the log"
                )
    return broken, judged


def _without_tenant(
    samples: Sequence[Shown], ended: float, began: float, layout: Layout, tenant_of: Mapping[str, str]
) -> set[str]:
    """Return the jobs that held cells before a restart, ran after it, and belong to no VC of the layout."""
    before = [one for one in samples if ended - GAP <= one.time < ended]
    after = [one for one in samples if began <= one.time <= began + GAP]
    held = before[-1].guaranteed if before and after else {}
    running = [job for job in held if job in after[0].running]
    return {job for job in running if before[-1].tenant(job, tenant_of) not in layout.tenants}
