"""Programs on a terminal of their own, and what is written of them. The tests have no terminal either."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiresias.sandbox.demo import terminal_recording
from tiresias.sandbox.demo.terminal_recording import TerminalRecording, play

Played = Callable[..., tuple[int, dict[str, Any], list[Any]]]


def events(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def played(tmp_path: Path) -> Played:
    """Exit code, header and events of a shell script."""

    def run(script: str, over: Callable[[Path], bool] = lambda file: False) -> tuple[int, dict[str, Any], list[Any]]:
        file = tmp_path / "cast"
        with TerminalRecording(file, (97, 31), "a title") as tape:
            code = play(["sh", "-c", script], tape, lambda: over(file))
        header, *rest = events(file)
        return code, header, rest

    return run


def ready(file: Path) -> bool:
    return "ready" in file.read_text()


def text(found: list[Any]) -> str:
    return "".join(content for _, kind, content in found if kind == "o")


def test_the_program_finds_a_terminal_of_that_size(played: Played) -> None:
    code, header, found = played("test -t 0 && test -t 1 && stty size && echo $TERM $COLORTERM; exit 3")
    assert code == 3
    assert {"version": 2, "width": 97, "height": 31, "title": "a title"}.items() <= header.items()
    assert abs(header["timestamp"] - time.time()) < 60
    assert text(found) == "31 97\r\nxterm-256color truecolor\r\n"


def test_moments_count_from_the_first_word(played: Played) -> None:
    _, _, found = played("sleep 0.3; echo one; sleep 0.5; echo two")
    moments = [moment for moment, _, _ in found]
    assert moments[0] == 0
    assert moments == sorted(moments)
    assert moments[-1] > 0.4


def test_the_program_may_print_a_last_line_when_it_is_over(played: Played) -> None:
    script = "trap 'echo bye; exit 7' INT; echo ready; while :; do sleep 0.05; done"
    code, _, found = played(script, ready)
    assert code == 7
    assert "bye" in text(found)


def test_one_that_stays_is_killed(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_recording, "INTERRUPT_TIMEOUT_S", 0.2)
    began = time.monotonic()
    code, _, found = played("trap '' INT HUP; echo ready; while :; do sleep 0.05; done", ready)
    assert (code, time.monotonic() - began < 30) == (-signal.SIGKILL, True)
    assert "ready" in text(found)


def test_an_error_ends_the_program(tmp_path: Path) -> None:
    """A part of the replay has died, or received a signal."""
    alive = tmp_path / "alive"

    def over() -> bool:
        assert not alive.exists()
        return False

    with TerminalRecording(tmp_path / "cast", (80, 24), "") as tape, pytest.raises(AssertionError):
        play(["sh", "-c", f"trap 'rm {alive}; exit' INT; touch {alive}; while :; do sleep 0.05; done"], tape, over)
    assert not alive.exists()


def test_a_character_in_two_pieces_is_one(tmp_path: Path) -> None:
    with TerminalRecording(tmp_path / "cast", (80, 24), "") as tape:
        for piece in (b"gr\xc3", b"\xbcn", b"\xff"):
            tape.output(piece)
        tape.resized((100, 30))
    _, *found = events(tmp_path / "cast")
    assert [(kind, content) for _, kind, content in found] == [
        ("o", "gr"),
        ("o", "ün"),
        ("o", "\ufffd"),
        ("r", "100x30"),
    ]
