"""The live view at fixed sizes against golden files (tests/golden.py), with names that try to do harm."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.example_status import NOW, example_status, hostile_status
from tests.examples import examples
from tests.golden import compare
from tiresias.slurm_plugin.views.symbols import symbols_of
from tiresias.slurm_plugin.watch.frame import Frame, Scene
from tiresias.slurm_plugin.watch.listing import listed
from tiresias.slurm_plugin.watch.view_state import ScreenContents, ViewState, after_key, after_update

GOLDEN = Path(__file__).parent / "golden"
PLAIN = Console(file=io.StringIO(), color_system=None)
SIZES = [(80, 24), (120, 40), (200, 60)]


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def explanation(job: dict[str, Any], decisions: list[dict[str, Any]]) -> dict[str, Any]:
    runs = [
        {"restart": n, "start": NOW - 9000 + 4000 * n, "end": NOW - 6000 + 4000 * n if n < 2 else None, "gpus": 4,
         "nodes": ["gpu13"], "restore": 3.5, "save": 0.4 if n < 2 else None, "pause": 1.2, "redone": 0}
        for n in range(3)
    ]  # fmt: skip
    return {"job": job, "runs": runs, "decisions": decisions, "paused": None}


def frame_of(status: Any, state: ViewState, size: tuple[int, int], problem: str = "", like: Console = PLAIN) -> Frame:
    jobs = listed(status["jobs"], state.sort, state.reverse, state.filter)
    subject = [job for job in status["jobs"] if job["id"] == state.subject]
    found: Any = explanation(subject[0], status["decisions"]) if subject else ""
    return Frame(Scene(status, jobs, symbols_of(status["jobs"]), found, problem), state, *size, NOW, like)


def after(status: Any, size: tuple[int, int], *keys: str, admin: bool = False) -> ViewState:
    state = ViewState(admin=admin)
    for key in keys:
        state = after_key(state, key, sight(status, state, size))
        state = after_update(state, sight(status, state, size))
    return state


def sight(status: Any, state: ViewState, size: tuple[int, int]) -> ScreenContents:
    frame = frame_of(status, state, size)
    ids = [job["id"] for job in listed(status["jobs"], state.sort, state.reverse, state.filter)]
    return ScreenContents(ids, frame.rows, len(frame.text()))


def drawn(status: Any, size: tuple[int, int], *keys: str, admin: bool = False, problem: str = "") -> list[str]:
    return frame_of(status, after(status, size, *keys, admin=admin), size, problem).lines()


@pytest.mark.parametrize("size", SIZES)
def test_hostile_jobs(size: tuple[int, int]) -> None:
    compare(drawn(hostile_status(), size, "down", "down", "down"), GOLDEN / f"jobs-{size[0]}x{size[1]}.txt")


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("explain", ["G", "k", "enter"]),
        ("decisions", ["d"]),
        ("keys", ["?"]),
        ("filter", ["s", "s", "r", "/", *"waiting", "enter", "end"]),
        ("typing", ["/", *"sweep-1"]),
        ("nobody", ["/", *"nobody", "enter"]),
        ("question", ["x"]),
    ],
)
def test_pages(name: str, keys: list[str]) -> None:
    compare(drawn(hostile_status(), (80, 24), *keys, admin=True), GOLDEN / f"{name}-80x24.txt")


def test_the_controller_is_gone() -> None:
    lines = drawn(example_status(), (80, 24), problem="no controller answers at /run/x:\n\x1b[2J is it running?")
    assert lines[0].rstrip() == "no controller answers at /run/x: ?[2J is it running?"
    assert lines[1].startswith("Tiresias testbed")
    assert len(lines) == 24


@pytest.mark.parametrize("width", [20, 41, 80, 149, 150, 400])
@pytest.mark.parametrize("height", [5, 11, 30, 100])
def test_any_size_holds(width: int, height: int) -> None:
    for keys, problem in ((["j"], ""), (["e"], "gone"), (["?"], ""), (["d"], ""), (["/", "x"], "gone"), (["p"], "")):
        lines = drawn(hostile_status(), (width, height), *keys, admin=True, problem=problem)
        assert len(lines) == height
        assert max(map(cell_len, lines)) <= width
        assert all(line.isprintable() for line in lines)


def test_the_pointer_stays_in_sight() -> None:
    status: Any = example_status()
    state, ids = ViewState(), [job["id"] for job in status["jobs"]]
    for job in ids:
        state = after_key(state, "j", ScreenContents(ids))
        pointed = [line for line in frame_of(status, state, (80, 24)).lines() if line.startswith("> ")]
        assert len(pointed) == 1
        assert f" {job} " in pointed[0]


def test_colour_and_plain_text_agree() -> None:
    import re

    colour = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", no_color=False)
    state = after(example_status(), (160, 40), "j")
    coloured = frame_of(example_status(), state, (160, 40), like=colour).lines()
    plain = frame_of(example_status(), state, (160, 40)).lines()
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in coloured] == [line.rstrip() for line in plain]
    assert any("\x1b[" in line for line in coloured)


@given(name=st.text(st.characters(exclude_categories=[]), max_size=80))
@settings(max_examples=examples(25), deadline=None)
def test_hostile_filters_and_texts(name: str) -> None:
    status = example_status()
    status["jobs"][0] |= {"name": name, "why": name, "user": name, "placement": name}
    for state in (
        ViewState(filter=name),
        ViewState(filter=name, typing=True),
        ViewState(note=name),
        ViewState(selected="1201"),
    ):
        lines = frame_of(status, state, (80, 24)).lines()
        assert all(line.isprintable() and cell_len(line) <= 80 for line in lines)
        assert len(lines) == 24
