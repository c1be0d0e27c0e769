"""One frame of the live view: the jobs or a page of text, and a line at the bottom. Pure."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from rich.console import Console, Group, RenderableType
from rich.text import Text

from tiresias.protocol.explanation import Explanation
from tiresias.protocol.published_job import PublishedJob
from tiresias.protocol.status import Status
from tiresias.slurm_plugin.sockets.admin_requests import PAUSE, RESUME, STOP
from tiresias.slurm_plugin.views.decisions import decision_page
from tiresias.slurm_plugin.views.explain import render_explanation
from tiresias.slurm_plugin.views.jobs import LEGEND, Listing, listed_jobs
from tiresias.slurm_plugin.views.status import opening, render_status, titled
from tiresias.slurm_plugin.views.symbols import Symbol
from tiresias.slurm_plugin.views.table_layout import FAINT, HEADING, styled
from tiresias.slurm_plugin.views.text import printable
from tiresias.slurm_plugin.views.user_filter import decisions_of, jobs_of, none_of, title_of, with_decisions_of
from tiresias.slurm_plugin.watch.view_state import Page, ViewState

QUESTIONS = {
    PAUSE: "Pause new preemptions?",
    RESUME: "End the pause, so that jobs are preempted again?",
    STOP: "Stop all controllers for good and lift their holds?",
}
KEYS = (
    ("j k, arrows", "select a job; also page up and down, home and end (g G)"),
    ("Enter, e", "explain the selected job"),
    ("s", "sort by the next of rank, submit, attained, user, GPUs"),
    ("r", "reverse the order"),
    ("/", "show only jobs with these words in user, name, id or state"),
    ("Esc", "close a page; end the filter and the selection"),
    ("d", "the last decisions"),
    ("?", "this page"),
    ("ctrl-L", "redraw the screen"),
    ("q", "close a page; quit"),
)
ADMIN_KEYS = (("p", "pause: no new preemptions"), ("u", "end the pause"), ("x", "stop --release: the kill switch"))
_Colours = Literal["standard", "256", "truecolor"]
_PAGE_HEAD = 2  # lines above a page's text
_LABEL = 14


@dataclass(frozen=True, slots=True)
class Scene:
    """The content of a frame.

    Attributes:
        status: as published
        jobs: filtered and sorted
        symbols: of the running jobs, by job id
        explanation: the requested explanation, or why there is none
        problem: why the status is not newer, "" if it is current
        user: the user whose jobs and decisions are shown, "" for all users
    """

    status: Status
    jobs: Sequence[PublishedJob]
    symbols: Mapping[str, Symbol]
    explanation: Explanation | str = ""
    problem: str = ""
    user: str = ""


class Frame:
    """One drawing of a scene.

    Args:
        scene: what to show
        state: of the view
        width: in cells
        height: in lines
        now: epoch seconds
        like: a console with the terminal's abilities
    """

    def __init__(self, scene: Scene, state: ViewState, width: int, height: int, now: float, like: Console) -> None:
        self._scene, self._state, self._width, self._now, self._like = scene, state, width, now, like
        self._problem = [styled((printable(scene.problem, width), "bold white on red"))] if scene.problem else []
        self._height = max(height - 1 - len(self._problem), 1)  # without the bottom line

    @property
    def rows(self) -> int:
        """Lines for the text of a page; among the jobs, the lines of one page up or down."""
        return self._height // 2 if self._state.page is Page.JOBS else max(self._height - _PAGE_HEAD, 1)

    def text(self) -> list[str]:
        """Return all lines of the open page."""
        return [] if self._state.page is Page.JOBS else ansi_lines(self._page(), self._width, self._like)

    def lines(self) -> list[str]:
        """Return the lines to draw, at most the terminal's height."""
        body = self._jobs() if self._state.page is Page.JOBS else self._turned()
        above = [*ansi_lines(Group(*self._problem), self._width, self._like), *body[: self._height]]
        blank = [""] * (self._height + len(self._problem) - len(above))
        return [*above, *blank, *ansi_lines(self._bottom(), self._width, self._like)]

    def _jobs(self) -> list[str]:
        listing = Listing(
            self._scene.jobs,
            self._scene.symbols,
            self._title(),
            self._state.selected,
            "no job matches all these words" if self._state.filter else none_of(self._scene.user),
        )
        status = with_decisions_of(self._scene.status, self._scene.user)
        view = render_status(status, self._width, self._height, self._now, listing)
        return ansi_lines(view, self._width, self._like)

    def _title(self) -> str:
        state, user = self._state, self._scene.user
        all_jobs = len(jobs_of(listed_jobs(self._scene.status), user))
        order = "" if (state.sort, state.reverse) == ("rank", False) else f" by {state.sort}"
        found = f" with {printable(state.filter, 30)}: {len(self._scene.jobs)} of {all_jobs}" if state.filter else ""
        return f"{title_of(user)}{order}{', reversed' if state.reverse else ''}{found}"

    def _turned(self) -> list[str]:
        name = f"explain {self._state.subject}" if self._state.page is Page.EXPLAIN else self._state.page.value
        text, top = self.text(), self._state.top
        where = f"{top + 1}-{min(top + self.rows, len(text))} of {len(text)}" if len(text) > self.rows else ""
        head = [opening(self._scene.status, self._width, self._now)]
        head += titled(printable(name, 40), [Text()], self._width, where)[:1]
        return ansi_lines(Group(*head), self._width, self._like) + text[top:][: self.rows]

    def _page(self) -> RenderableType:
        if self._state.page is Page.LOG:
            return Group(*decision_page(decisions_of(self._scene.status, self._scene.user), self._now, self._width))
        if self._state.page is Page.HELP:
            return self._help()
        found = self._scene.explanation
        if isinstance(found, str):
            return styled((printable(found, self._width), ""))
        return render_explanation(found, self._width, self._now)

    def _help(self) -> RenderableType:
        orders = [("", ""), *ADMIN_KEYS] if self._state.admin else []
        rows = [*KEYS, *orders, ("", ""), ("columns", ""), *LEGEND]
        return Group(
            *(styled((f"{printable(name, _LABEL):{_LABEL}}", HEADING), (f" {text}", "")) for name, text in rows)
        )

    def _bottom(self) -> Text:
        state = self._state
        if state.question:
            return styled((QUESTIONS[state.question], "bold yellow"), (" y/N ", "bold"))
        if state.typing:
            return styled(("/", "bold"), (printable(state.filter, self._width - 2), ""), ("_", "blink"))
        if state.note:
            return styled((printable(state.note, self._width), "bold yellow"))
        hints = self._hints()
        return styled(("admin  " if state.admin else "", "bold red"), (hints, FAINT))

    def _hints(self) -> str:
        if self._state.page is not Page.JOBS:
            return "Esc back   j k scroll   q back"
        if self._state.admin:
            return "Enter explain  s sort  / filter  p pause  u resume  x stop  ? keys  q"
        return "j k select  Enter explain  s sort  / filter  d decisions  ? keys  q quit"


def ansi_lines(renderable: RenderableType, width: int, like: Console) -> list[str]:
    """Return the lines that rich prints, in the colours that `like` has."""
    out = io.StringIO()
    colours = cast(_Colours | None, like.color_system)
    console = Console(
        file=out, width=width, height=100, force_terminal=True, color_system=colours, no_color=like.no_color, markup=False,
        highlight=False, emoji=False, legacy_windows=False,
    )  # fmt: skip
    console.print(Group(renderable))  # a text alone would be wrapped
    return [line.rstrip(" ") for line in out.getvalue().split("\n")[:-1]]
