"""`tiresias status --watch` on a pseudo-terminal, with keys, against a real control socket."""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.example_status import example_status, hostile_status
from tests.pseudo_terminal import ENTER, LEAVE, Terminal
from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.sockets.admin_requests import AdminRequest, AdminRequests
from tiresias.slurm_plugin.sockets.control_socket import ControlServer
from tiresias.slurm_plugin.sockets.peer import Peer

Watch = Callable[..., Terminal]
HINTS = "? keys  q quit"
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}


class Centre:
    """Answers as a controller does: `status` may be replaced, `orders` are taken and carried out by the test."""

    def __init__(self, path: Path) -> None:
        self.status = self.fresh(example_status())
        self.orders = AdminRequests(self._views, lambda: None)
        self.uid = 0  # of the client; every user here is root
        self._server = ControlServer(
            path, lambda request, peer: self.orders.answer(request, peer._replace(uid=self.uid))
        )

    def fresh(self, status: dict[str, Any]) -> dict[str, Any]:
        return status | {"time": time.time()}

    def close(self) -> None:
        self._server.close()

    def take(self, seconds: float = 10.0) -> AdminRequest:
        deadline = time.monotonic() + seconds
        while not (taken := self.orders.take()):
            assert time.monotonic() < deadline, "no order came"
            time.sleep(0.01)
        assert len(taken) == 1
        return taken[0]

    def _views(self, request: dict[str, Any], peer: Peer) -> dict[str, Any]:
        if request["op"] == "status":
            return self.status
        found = [job for job in self.status["jobs"] if job["id"] == request["job"]]
        if not found:
            raise TiresiasError(f"job {request['job']}: not known here")
        return {"job": found[0], "runs": [], "decisions": self.status["decisions"] * 5, "paused": None}


@pytest.fixture
def centre(tmp_path: Path) -> Iterator[Centre]:
    running = Centre(tmp_path / "control.sock")
    yield running
    running.close()


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    opened: list[Terminal] = []

    def start(*options: str, size: tuple[int, int] = (80, 24), **more: str) -> Terminal:
        keep = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
        env = keep | {"TIRESIAS_PATHS_RUN": str(tmp_path), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"} | more
        opened.append(Terminal([sys.executable, "-m", "tiresias", "status", "--watch", *options], env, size))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def chosen(lines: list[str]) -> str:
    """The id of the job that the pointer stands at."""
    return next((re.split(r" +", line)[2] for line in lines if line.startswith("> ")), "")


@pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129), ("q", 0), ("failure", 1)]
)
def test_the_terminal_is_given_back(centre: Centre, watch: Watch, how: Any, code: int) -> None:
    live = watch()
    before = termios.tcgetattr(live.slave)
    live.read_until(ENTER, b"testbed", b"?25l")
    assert termios.tcgetattr(live.slave) != before
    if how == "q":
        live.press(b"q")
    elif how == "failure":
        centre.status = centre.status | {"jobs": [{"no": "id"}]}  # no controller of this version publishes that
    else:
        live.process.send_signal(how)
    live.read_until(LEAVE, b"?25h")
    assert live.process.wait(10) == code
    assert termios.tcgetattr(live.slave) == before


def test_a_line_that_breaks(centre: Centre, watch: Watch) -> None:
    live = watch()
    live.shows(HINTS)
    live.hang_up()
    assert live.process.wait(10) in (129, -signal.SIGHUP)


def test_suspended_and_continued(centre: Centre, watch: Watch) -> None:
    live = watch()
    before = termios.tcgetattr(live.slave)
    live.shows(HINTS)
    live.process.send_signal(signal.SIGTSTP)
    live.read_until(LEAVE)
    os.waitid(os.P_PID, live.process.pid, os.WSTOPPED | os.WNOWAIT)
    assert termios.tcgetattr(live.slave) == before
    live.process.send_signal(signal.SIGCONT)
    live.read_until(ENTER, b"testbed")


def test_choosing_sorting_and_filtering(centre: Centre, watch: Watch) -> None:
    live = watch()
    live.shows(HINTS, "resnet50-")
    live.press(b"jj\x1b[B")
    assert chosen(live.shows("> L ")) == "1207"
    live.press(b"s")
    assert chosen(live.shows("jobs by submit")) == "1207"
    live.press(b"sr")
    live.shows("jobs by attained, reversed")
    live.press(b"/hana\r")
    live.shows("jobs by attained, reversed with hana: 2 of 39")
    live.press(b"\x1b")
    assert chosen(live.shows("jobs by attained, reversed ─")) == ""


def test_a_chosen_job_is_followed(centre: Centre, watch: Watch) -> None:
    live = watch()
    live.shows(HINTS)
    live.press(b"jj")
    live.shows("> I ")
    jobs = centre.status["jobs"]
    centre.status = centre.fresh(centre.status) | {"jobs": [jobs[2], jobs[3], jobs[0], jobs[1], *jobs[4:]]}
    deadline = time.monotonic() + 10
    while not above(live.shows("> I "), " 1208 ", "> I "):
        assert time.monotonic() < deadline
        live.sent_in(0.1)


def above(lines: list[str], upper: str, lower: str) -> bool:
    row = {text: next(row for row, line in enumerate(lines) if text in line) for text in (upper, lower)}
    return row[upper] < row[lower]


def test_pages(centre: Centre, watch: Watch) -> None:
    live = watch()
    live.shows(HINTS)
    live.press(b"jj\r")
    live.shows("─ explain 1204", "job 1204 vgg19-sweep-03 is running", "1-21 of")
    live.press(b"G")
    live.shows("─ explain 1204", "head of Q1; consolidated on gpu03")
    centre.status = centre.fresh(centre.status) | {"jobs": []}
    live.shows("job 1204: not known here")
    live.press(b"\x1b")
    live.shows("no jobs in the managed partitions")
    live.press(b"d")
    live.shows("─ decisions ─", "41200 in 0.4 s")
    live.press(b"?")
    live.shows("─ keys ─", "this page")
    live.press(b"q")
    live.shows(HINTS)


def test_a_resize(centre: Centre, watch: Watch) -> None:
    live = watch()
    live.shows(HINTS)
    live.resize((160, 40))
    live.process.send_signal(signal.SIGWINCH)
    lines = live.shows("╭─ Tiresias testbed", HINTS)
    assert len(lines) == 40
    assert max(map(len, lines)) == 160


def test_orders_ask_and_are_carried_out(centre: Centre, watch: Watch) -> None:
    live = watch("--admin")
    live.shows("admin")
    live.press(b"p")
    live.shows("Pause new preemptions? y/N")
    live.press(b"n")
    live.shows("admin")
    live.press(b"py")  # typed ahead, before the question is displayed
    live.shows("Pause new preemptions? y/N")
    assert centre.orders.take() == []
    live.press(b"y")
    order = centre.take()
    assert order.op == "pause"
    centre.orders.done(order, "no job is preempted any more")
    live.shows("no job is preempted any more")
    live.press(b"x")
    live.shows("Stop all controllers for good")
    live.press(b"y")
    order = centre.take()
    assert (order.op, order.release) == ("stop", True)
    centre.orders.fail(order, TiresiasError("the journal cannot be written"))
    live.shows("the journal cannot be written")


def test_an_order_of_a_user_without_the_right(centre: Centre, watch: Watch) -> None:
    centre.uid = 4242
    live = watch("--admin")
    live.shows("admin")
    live.press(b"u")
    live.shows("End the pause")
    live.press(b"y")
    live.shows("resume is refused: only root and the controller's own user may order it")
    assert centre.orders.take() == []


def test_no_orders_without_admin(centre: Centre, watch: Watch) -> None:
    live = watch()
    live.shows(HINTS)
    live.press(b"p")
    live.shows("started without --admin")
    live.press(b"y")
    live.shows(HINTS)
    assert centre.orders.take() == []


def test_the_controller_comes_and_goes(watch: Watch, tmp_path: Path) -> None:
    first = Centre(tmp_path / "control.sock")
    live = watch()
    live.shows("testbed", HINTS)
    first.close()
    live.shows("no controller answers", "testbed")  # the last frame stays
    second = Centre(tmp_path / "control.sock")
    second.status = second.fresh(second.status) | {"cluster": "again"}
    lines = live.shows("again")
    assert "no controller" not in "\n".join(lines)
    second.close()


def test_little_is_sent_when_little_changes(centre: Centre, watch: Watch) -> None:
    """Over a slow line. The age of the cycle is counted every second."""
    live = watch(size=(200, 60))
    live.shows(HINTS)
    quiet_by = time.monotonic() + 20
    while len(live.sent_in(1.0)) >= 600:  # the rest of the first frames
        assert time.monotonic() < quiet_by, "whole frames are sent without end"
    assert len(live.sent_in(3.0)) < 3 * 600
    jobs = [job | {"why": "something new"} if at == 15 else job for at, job in enumerate(centre.status["jobs"])]
    centre.status = centre.fresh(centre.status) | {"jobs": jobs}  # at once: the view may poll at any moment
    live.shows("something new")
    live.press(b"\x0c")
    assert len(live.read_until(HINTS.encode())) > 8000


@pytest.mark.parametrize(
    ("environment", "absent"),
    [
        ({"NO_COLOR": "1"}, [b"38;", b"48;", b"\x1b[32m"]),
        ({"TERM": "vt100"}, [b"38;2", b"48;2", b"38;5", b"48;5"]),
        (ASCII, [bytes([number]) for number in range(128, 256)]),
    ],
)
def test_poor_terminals(centre: Centre, watch: Watch, environment: dict[str, str], absent: list[bytes]) -> None:
    centre.status = centre.fresh(hostile_status()) | {"cluster": "testbed"}
    live = watch(size=(160, 40), **environment)
    sent = live.read_until(b"q quit", b"last decisions", b"resnet101")
    assert not [each for each in absent if each in sent]


def test_a_dumb_terminal_gets_a_page(centre: Centre, watch: Watch) -> None:
    live = watch(TERM="dumb")
    sent = live.read_until(b"last decisions")
    assert live.process.wait(10) == 0
    assert b"\x1b" not in sent
