"""The texts of reasons in terms of cells of virtual clusters (VCs)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tiresias.scheduler.reason_codes import Reason, ReasonCode

MAX_NAMED = 5  # jobs in a text
_PLURALS = {"node": "nodes", "leaf": "leaves", "socket": "sockets", "gpu": "GPUs", "block": "blocks", "rack": "racks"}


def cells_in_words(count: int, level: str) -> str:
    """Return a number of cells of a type: 1 node, 3 leaves, 2 cells of type leaf#1."""
    return f"{count} {_noun(count, level)}"


def _noun(count: int, level: str) -> str:
    if level in _PLURALS:
        return level if count == 1 else _PLURALS[level]
    return f"cell{'' if count == 1 else 's'} of type {level}"


def jobs_in_words(jobs: tuple[str, ...]) -> str:
    """Return the ids of jobs, the first few of many."""
    more = f" and {len(jobs) - MAX_NAMED} more" if len(jobs) > MAX_NAMED else ""
    return f"job{'' if len(jobs) == 1 else 's'} {', '.join(jobs[:MAX_NAMED])}{more}"


def _in_cells(reason: Reason) -> str:
    level = f"a {reason.level}" if reason.level in _PLURALS else f"a cell of type {reason.level}"
    return f"runs in {level} of virtual cluster {reason.text}: only jobs of this virtual cluster can take its place"


def _being_freed(reason: Reason) -> str:
    owned = f"{reason.amount} more {_noun(reason.amount, reason.level)}"
    runs, is_preempted = ("runs", "is") if len(reason.jobs) == 1 else ("run", "are")
    places = ", ".join(node for node, _ in reason.nodes)
    on = "it" if reason.amount == 1 else "one of them" if len(reason.nodes) == 1 else f"{len(reason.nodes)} of them"
    return (
        f"waits: virtual cluster {reason.text} owns {owned}; {jobs_in_words(reason.jobs)} {runs} on {on} ({places}) "
        f"opportunistically and {is_preempted} being preempted"
    )


def _in_use(reason: Reason) -> str:
    needs = cells_in_words(reason.needed, reason.level)
    owned = cells_in_words(reason.amount, reason.level)
    if reason.amount - reason.in_use >= reason.needed:
        used = f"{reason.in_use} in use; higher-ranked jobs of its own start in the others"
    else:
        used = "all in use" if reason.in_use == reason.amount > 1 else f"{reason.in_use} in use"
    holders = f"; its cells are held by {jobs_in_words(reason.jobs)}" if reason.jobs else ""
    return f"waits: it needs {needs} of virtual cluster {reason.text}, which owns {owned}, {used}{holders}"


def _beyond(reason: Reason) -> str:
    return (
        f"waits: it requests {reason.needed} GPUs, and virtual cluster {reason.text} owns {reason.amount}: it can only run "
        "opportunistically, where that is permitted and enough GPUs are idle"
    )


def _unfit(reason: Reason) -> str:
    return (
        f"waits: no cells of virtual cluster {reason.text} fit what it asks for: it can only run opportunistically, where that "
        "is permitted and enough GPUs are idle"
    )


def _preempted_for(reason: Reason) -> str:
    return (
        f"runs opportunistically and is being preempted: {jobs_in_words(reason.jobs)} of virtual cluster {reason.text} "
        f"needs these GPUs for cells that the virtual cluster owns"
    )


CELL_WORDS: Mapping[ReasonCode, Callable[[Reason], str]] = {
    ReasonCode.IN_CELLS: _in_cells,
    ReasonCode.CELLS_BEING_FREED: _being_freed,
    ReasonCode.CELLS_IN_USE: _in_use,
    ReasonCode.BEYOND_CELLS: _beyond,
    ReasonCode.UNFIT_CELLS: _unfit,
    ReasonCode.PREEMPTED_FOR_CELLS: _preempted_for,
}
