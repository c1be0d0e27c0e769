"""State of the live view and the effect of keys on it. Pure: `after_key` and `after_update` return a new state.

The selection is a job, not a line: it follows the job when the order changes, and keeps its line when the job is gone. An
order to the controller needs two keys, its own and then y; a key typed before the question is never its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tiresias.slurm_plugin.sockets.admin_requests import PAUSE, RESUME, STOP
from tiresias.slurm_plugin.watch.listing import SORTS

MAX_FILTER_CHARACTERS = 60  # characters
ORDERS = {"p": PAUSE, "u": RESUME, "x": STOP}
NO_ADMIN = "started without --admin: this view is read-only"
_STEPS = {"up": -1, "k": -1, "down": 1, "j": 1}
_PAGES = {"pageup": -1, "pagedown": 1, " ": 1}
_ENDS = {"home": -1, "g": -1, "end": 1, "G": 1}
_FAR = 10**9


class Page(Enum):
    """The pages of the view."""

    JOBS = "jobs"
    EXPLAIN = "explain"
    LOG = "decisions"
    HELP = "keys"


_OPENS = {"d": Page.LOG, "?": Page.HELP}


@dataclass(frozen=True, slots=True)
class ScreenContents:
    """What the screen shows.

    Attributes:
        jobs: ids in the order shown
        rows: lines for them, or for the text of a page
        lines: lines of that text
    """

    jobs: Sequence[str] = ()
    rows: int = 1
    lines: int = 0


@dataclass(frozen=True, slots=True)
class ViewState:
    """State of the view.

    Attributes:
        admin: whether orders to the controller are enabled
        selected: id of the selected job, "" for none
        index: last known row of the selected job
        sort: one of SORTS
        reverse: whether the order is reversed
        filter: words that listed jobs must contain
        typing: whether keys go to the filter
        page: the open page
        subject: id of the explained job
        top: first visible line of a page
        question: the order that y confirms, "" for none
        order: the confirmed order, to be sent to the controller
        note: one line for the bottom of the screen
        over: whether the view ends
    """

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


def after_key(state: ViewState, key: str, contents: ScreenContents) -> ViewState:
    """Return the state after a key."""
    state = replace(state, note="")
    if state.question:
        return replace(state, question="", order=state.question if key in ("y", "Y") else "")
    if state.typing:
        return _typed(state, key)
    if state.page is Page.JOBS:
        return _on_jobs(state, key, contents)
    return _on_page(state, key, contents)


def after_update(state: ViewState, contents: ScreenContents) -> ViewState:
    """Return the state after the jobs or the screen have changed: no position points beyond the end."""
    state = replace(state, top=min(state.top, _last_top(contents)))
    if not state.selected:
        return state
    if state.selected in contents.jobs:
        return replace(state, index=contents.jobs.index(state.selected))
    return _selected(state, state.index, contents)


def _typed(state: ViewState, key: str) -> ViewState:
    if key == "escape":
        return replace(state, typing=False, filter="")
    if key == "enter":
        return replace(state, typing=False)
    if key in ("backspace", "clear"):
        return replace(state, filter=state.filter[:-1] if key == "backspace" else "")
    return replace(state, filter=(state.filter + key)[:MAX_FILTER_CHARACTERS]) if len(key) == 1 else state


def _on_jobs(state: ViewState, key: str, contents: ScreenContents) -> ViewState:
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
        return _explained(state, contents)
    if step := _step(key, contents):
        return _selected(state, (state.index if state.selected else -1) + step, contents)
    return _elsewhere(state, key)


def _on_page(state: ViewState, key: str, contents: ScreenContents) -> ViewState:
    if key in ("escape", "q", "left"):
        return replace(state, page=Page.JOBS, top=0)
    if step := _step(key, contents):
        return replace(state, top=max(min(state.top + step, _last_top(contents)), 0))
    return _elsewhere(state, key)


def _elsewhere(state: ViewState, key: str) -> ViewState:
    """Return the state after a key with the same effect on every page."""
    if key in _OPENS:
        return replace(state, page=_OPENS[key], top=0)
    if key in ORDERS:
        return replace(state, question=ORDERS[key]) if state.admin else replace(state, note=NO_ADMIN)
    return state


def _explained(state: ViewState, contents: ScreenContents) -> ViewState:
    """Open the explanation of the selected job, of the first one where none is selected."""
    state = state if state.selected else _selected(state, 0, contents)
    if not state.selected:
        return replace(state, note="no job to explain")
    return replace(state, page=Page.EXPLAIN, subject=state.selected, top=0)


def _selected(state: ViewState, index: int, contents: ScreenContents) -> ViewState:
    index = max(min(index, len(contents.jobs) - 1), 0)
    return replace(state, index=index, selected=contents.jobs[index] if contents.jobs else "")


def _step(key: str, contents: ScreenContents) -> int:
    """Return the number of lines to move, 0 for other keys."""
    return _STEPS.get(key, 0) or _PAGES.get(key, 0) * max(contents.rows - 1, 1) or _ENDS.get(key, 0) * _FAR


def _last_top(contents: ScreenContents) -> int:
    return max(contents.lines - contents.rows, 0)
