"""What keys do to the view: any keys on any screens."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.slurm_plugin.watch.listing import SORTS
from tiresias.slurm_plugin.watch.view_state import (
    MAX_FILTER_CHARACTERS,
    NO_ADMIN,
    ORDERS,
    Page,
    ScreenContents,
    ViewState,
    after_key,
    after_update,
)

NAMED = [
    "up",
    "down",
    "left",
    "right",
    "home",
    "end",
    "pageup",
    "pagedown",
    "enter",
    "escape",
    "backspace",
    "clear",
    "redraw",
]
KEYS = st.sampled_from([*NAMED, *"jkgGsr/e?dqpuxyn "]) | st.characters()
SIGHTS = st.builds(
    ScreenContents,
    jobs=st.lists(st.integers(1, 30).map(str), unique=True, max_size=12),
    rows=st.integers(1, 60),
    lines=st.integers(0, 200),
)
JOBS = ScreenContents(tuple("abcdefgh"), rows=4)


def after(*keys: str, sight: ScreenContents = JOBS, state: ViewState | None = None) -> ViewState:
    state = state or ViewState()
    for key in keys:
        state = after_update(after_key(state, key, sight), sight)
    return state


@given(st.lists(st.tuples(KEYS, SIGHTS), max_size=60), st.booleans())
def test_any_keys_on_any_screens(steps: list[tuple[str, ScreenContents]], admin: bool) -> None:
    state, before = ViewState(admin=admin), ScreenContents()
    for key, sight in steps:
        was = state
        state = after_update(after_key(state, key, before), sight)  # meanwhile the jobs may have changed
        assert state.selected == "" or state.selected in sight.jobs
        assert state.selected == "" or sight.jobs[state.index] == state.selected
        assert 0 <= state.top <= max(sight.lines - sight.rows, 0)
        assert state.sort in SORTS
        assert len(state.filter) <= MAX_FILTER_CHARACTERS
        assert not state.order or (admin and was.question == state.order and key in ("y", "Y"))
        state, before = replace(state, order=""), sight


def test_moving() -> None:
    assert after("down").selected == "a"
    assert after("j", "down").selected == "b"
    assert after("k").selected == "a"
    assert after("end").selected == after("G").selected == "h"
    assert after("end", "up").selected == "g"
    assert after("j", "pagedown").selected == "d"
    assert after("G", "home").selected == "a"
    assert after("j", "j", "escape").selected == ""


def test_the_selection_is_a_job_not_a_line() -> None:
    state = after("j", "j", "j")
    assert after_update(state, ScreenContents(("c", "b", "a"))).index == 0
    assert after_update(state, ScreenContents(tuple("abdef"))).selected == "d"  # c is gone
    assert after_update(state, ScreenContents(("a",))).selected == "a"
    assert after_update(state, ScreenContents()).selected == ""


def test_sorting() -> None:
    assert [after(*"s" * count).sort for count in range(6)] == [*SORTS, SORTS[0]]
    assert after("r").reverse
    assert not after("r", "r").reverse


def test_a_filter_takes_every_key_until_enter() -> None:
    state = after("/", *"query", "q")
    assert (state.filter, state.typing, state.over) == ("queryq", True, False)
    assert after("/", "a", "b", "backspace").filter == "a"
    assert after("/", "a", "b", "clear").filter == ""
    kept = after("/", "a", "enter")
    assert (kept.filter, kept.typing) == ("a", False)
    assert after("escape", state=kept).filter == ""
    assert after("/", "a", "escape").filter == ""


@pytest.mark.parametrize(
    ("key", "page"), [("enter", Page.EXPLAIN), ("e", Page.EXPLAIN), ("d", Page.LOG), ("?", Page.HELP)]
)
def test_pages_open_and_close(key: str, page: Page) -> None:
    long = ScreenContents(JOBS.jobs, rows=10, lines=25)
    state = after("j", "j", key, sight=long)
    assert state.page is page
    assert after("j", state=state, sight=long).top == 1
    assert after("end", state=state, sight=long).top == 15
    for back in ("escape", "q", "left"):
        closed = after(back, state=state, sight=long)
        assert (closed.page, closed.selected, closed.over) == (Page.JOBS, "b", False)


def test_what_is_explained() -> None:
    assert after("j", "j", "e").subject == "b"
    assert after("e").subject == "a"
    assert after("e", sight=ScreenContents()).note == "no job to explain"


@pytest.mark.parametrize("key", ORDERS)
def test_orders_ask_first(key: str) -> None:
    asked = after(key, state=ViewState(admin=True))
    assert (asked.question, asked.order) == (ORDERS[key], "")
    assert after("y", state=asked).order == ORDERS[key]
    for other in ("n", "enter", "escape", key, "q"):
        refused = after(other, state=asked)
        assert (refused.question, refused.order, refused.over) == ("", "", False)


@pytest.mark.parametrize("key", ORDERS)
def test_no_orders_without_admin(key: str) -> None:
    state = after(key, "y")
    assert (state.question, state.order) == ("", "")
    assert after(key).note == NO_ADMIN
    assert after(key, "j").note == ""
