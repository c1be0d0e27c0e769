"""A trace format of an installed package: its calls have time limits, and errors of the file keep their message."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tiresias.errors import UsageError
from tiresias.scheduler.plugin import PluginError
from tiresias.simulator.formats import plugin_format
from tiresias.simulator.formats.plugin_format import accepted
from tiresias.simulator.formats.trace_file import TraceFile, opened
from tiresias.simulator.formats.trace_format import TraceFormat


@pytest.fixture
def source(tmp_path: Path) -> Iterator[TraceFile]:
    file = tmp_path / "trace"
    file.write_text("#acme\n")
    with opened(file, lambda rows: None) as trace:
        yield trace


@pytest.fixture
def hang() -> Iterator[Callable[..., Any]]:
    """A function that does not return during the test."""
    over = threading.Event()
    yield lambda *_: over.wait(60)
    over.set()


def refused(source: TraceFile) -> Any:
    raise UsageError("trace: line 3: no number of GPUs")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_format, "READ_TIMEOUT_S", 0.5)
    monkeypatch.setattr(plugin_format, "CALL_TIMEOUT_S", 0.2)


def test_a_read_that_hangs_is_one_line(source: TraceFile, hang: Callable[..., Any]) -> None:
    found = accepted("log", "acme0", TraceFormat("an example", lambda head: True, hang))
    with pytest.raises(PluginError, match=r"^trace_formats: 'log' of package acme0: read\(\) took over 0\.5 s; fix"):
        found.read(source)


def test_a_recognition_that_hangs_is_one_line(source: TraceFile, hang: Callable[..., Any]) -> None:
    found = accepted("log", "acme0", TraceFormat("an example", hang, refused))
    with pytest.raises(PluginError, match=r"'log' of package acme0: recognises\(\) took over 0\.2 s; fix"):
        found.recognises(source.head)


def test_an_error_of_the_file_stays_as_it_is(source: TraceFile) -> None:
    found = accepted("log", "acme0", TraceFormat("an example", lambda head: True, refused))
    with pytest.raises(UsageError, match=r"^trace: line 3: no number of GPUs$") as caught:
        found.read(source)
    assert not isinstance(caught.value, PluginError)
