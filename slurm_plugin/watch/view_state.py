"""What the live view shows, and what a key makes of it. Pure: `pressed` and `seen` give a new state, and do nothing.

A selection is a job, not a line: it follows the job when the order changes, and stays where it was when the job is gone.
An order to the controller needs two keys, its own and then y; it is never the answer to what was typed before the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tiresias.slurm_plugin.sockets.admin_requests import PAUSE, RESUME, STOP
from tiresias.slurm_plugin.watch.listing import SORTS

FILTER = 60  # characters
ORDERS = {"p": PAUSE, "u": RESUME, "x": STOP}
NO_ADMIN = "started without --admin: it only looks"
_STEPS = {"up": -1, "k": -1, "down": 1, "j": 1}
_PAGES = {"pageup": -1, "pagedown": 1, " ": 1}
_ENDS = {"home": -1, "g": -1, "end": 1, "G": 1}
_FAR = 10**9


class Page(Enum):
    JOBS = "jobs"
    EXPLAIN = "explain"
    LOG = "decisions"
    HELP = "keys"


_OPENS = {"d": Page.LOG, "?": Page.HELP}


@dataclass(frozen=True, slots=True)
class Sight:
    """What is on the screen. jobs: ids in the order shown. rows: lines for them, or for the text of a page. lines: of that text."""

    jobs: Sequence[str] = ()
    rows: int = 1
    lines: int = 0


@dataclass(frozen=True, slots=True)
class ViewState:
    """selected: a job's id, "": none. index: where it was last seen. subject: the job that is explained. top: the first line of a
    page that is shown. question: an order that waits for y; order: one that was confirmed, for whoever gives it. note: one line."""

    admin: bool = False
    selected: str = ""
    index: int = 0
    sort: str = SORTS[0]
    reverse: bool = False
    filter: str = ""
    typing: bool = False
    page: Page = Page.JOBS
    subject: str = ""
    top: int = 0
    question: str = ""
    order: str = ""
    note: str = ""
    over: bool = False


def pressed(state: ViewState, key: str, sight: Sight) -> ViewState:
    state = replace(state, note="")
    if state.question:
        return replace(state, question="", order=state.question if key in ("y", "Y") else "")
    if state.typing:
        return _typed(state, key)
    if state.page is Page.JOBS:
        return _on_jobs(state, key, sight)
    return _on_page(state, key, sight)


def seen(state: ViewState, sight: Sight) -> ViewState:
    """After the jobs or the screen have changed: nothing points to where nothing is."""
    state = replace(state, top=min(state.top, _last_top(sight)))
    if not state.selected:
        return state
    if state.selected in sight.jobs:
        return replace(state, index=sight.jobs.index(state.selected))
    return _selected(state, state.index, sight)


def _typed(state: ViewState, key: str) -> ViewState:
    if key == "escape":
        return replace(state, typing=False, filter="")
    if key == "enter":
        return replace(state, typing=False)
    if key in ("backspace", "clear"):
        return replace(state, filter=state.filter[:-1] if key == "backspace" else "")
    return replace(state, filter=(state.filter + key)[:FILTER]) if len(key) == 1 else state


def _on_jobs(state: ViewState, key: str, sight: Sight) -> ViewState:
    if key == "q":
        return replace(state, over=True)
    if key == "escape":
        return replace(state, filter="", selected="", index=0)
    if key == "s":
        return replace(state, sort=SORTS[(SORTS.index(state.sort) + 1) % len(SORTS)])
    if key == "r":
        return replace(state, reverse=not state.reverse)
    if key == "/":
        return replace(state, typing=True)
    if key in ("enter", "e", "right"):
        return _explained(state, sight)
    if step := _step(key, sight):
        return _selected(state, (state.index if state.selected else -1) + step, sight)
    return _elsewhere(state, key)


def _on_page(state: ViewState, key: str, sight: Sight) -> ViewState:
    if key in ("escape", "q", "left"):
        return replace(state, page=Page.JOBS, top=0)
    if step := _step(key, sight):
        return replace(state, top=max(min(state.top + step, _last_top(sight)), 0))
    return _elsewhere(state, key)


def _elsewhere(state: ViewState, key: str) -> ViewState:
    """What a key does on any page."""
    if key in _OPENS:
        return replace(state, page=_OPENS[key], top=0)
    if key in ORDERS:
        return replace(state, question=ORDERS[key]) if state.admin else replace(state, note=NO_ADMIN)
    return state


def _explained(state: ViewState, sight: Sight) -> ViewState:
    """The selected job; the first one where none is."""
    state = state if state.selected else _selected(state, 0, sight)
    if not state.selected:
        return replace(state, note="no job to explain")
    return replace(state, page=Page.EXPLAIN, subject=state.selected, top=0)


def _selected(state: ViewState, index: int, sight: Sight) -> ViewState:
    index = max(min(index, len(sight.jobs) - 1), 0)
    return replace(state, index=index, selected=sight.jobs[index] if sight.jobs else "")


def _step(key: str, sight: Sight) -> int:
    """Lines to go; 0 for keys that do not move."""
    return _STEPS.get(key, 0) or _PAGES.get(key, 0) * max(sight.rows - 1, 1) or _ENDS.get(key, 0) * _FAR


def _last_top(sight: Sight) -> int:
    return max(sight.lines - sight.rows, 0)
