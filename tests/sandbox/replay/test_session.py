"""Which Debian suite a replay runs on; only the building of trees is played."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tiresias.errors import TiresiasError
from tiresias.profiler import build
from tiresias.sandbox import host, pyslurm_layer, rootfs
from tiresias.sandbox.replay import session
from tiresias.sandbox.rootfs import Rootfs


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The suites that cannot be built."""
    suites: set[str] = set()

    def ensure(suite: str, **_: Any) -> Rootfs:
        if suite in suites:
            raise TiresiasError(f"building Debian {suite} failed: no Release file")
        return Rootfs(suite, Path("/nowhere"))

    monkeypatch.setattr(host, "require_tools", lambda: None)
    monkeypatch.setattr(rootfs, "ensure", ensure)
    monkeypatch.setattr(pyslurm_layer, "ensure", lambda tree, **_: None)
    monkeypatch.setattr(build, "problem", lambda: "")
    return suites


def choose(expected: str = "") -> tuple[str, list[str]]:
    """The suite, and the lines reported about it."""
    console = Console(file=io.StringIO(), width=80)
    suite = session.available_suite(expected, console)
    assert isinstance(console.file, io.StringIO)
    return suite, console.file.getvalue().splitlines()


def test_the_newest_suite_comes_first(gone: set[str]) -> None:
    assert choose() == ("forky", [])


def test_a_host_that_cannot_record_costs_one_line(gone: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "problem", lambda: "this host lacks make")
    assert choose() == ("forky", ["the profiler does not record on this host: this host lacks make"])


def test_a_missing_suite_costs_one_line(gone: set[str]) -> None:
    gone.add("forky")
    suite, reported = choose()
    assert suite == "trixie"
    assert reported == ["no Debian forky (building Debian forky failed: no Release file): trying the next"]


def test_without_any_suite_the_last_error_is_reported(gone: set[str]) -> None:
    gone |= {"forky", "trixie", "bookworm"}
    with pytest.raises(TiresiasError, match="bookworm failed"):
        choose()


def test_a_suite_that_is_asked_for_is_not_replaced(gone: set[str]) -> None:
    gone.add("forky")
    with pytest.raises(TiresiasError, match="forky failed"):
        choose("forky")
    assert choose("bookworm") == ("bookworm", [])
