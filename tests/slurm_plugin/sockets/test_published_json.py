"""The published JSON, byte by byte: keys, their order and the form of each value are what clients of the control socket read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import golden
from tests.slurm_plugin.sockets.test_publication import NOW, ROOT, Sight
from tiresias.durable.leadership import Leadership
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.cluster.site import Site
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.controller import Controller
from tiresias.slurm_plugin.state.journal import Journal

GOLDEN = Path(__file__).with_name("golden")
# What differs from one run of the test to the next.
VOLATILE = {"host", "pid", "since", "started", "tiresias", "seconds", "snapshot", "median", "p99", "per_minute"}
REQUESTS: dict[str, dict[str, Any]] = {
    "status": {"op": "status"},
    "status-screen": {"op": "status", "lines": 3, "cells": 20},
    "explain-running": {"op": "explain", "job": "1"},
    "explain-waiting": {"op": "explain", "job": "8"},
    "history": {"op": "history"},
    "history-job": {"op": "history", "job": "1"},
}


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Moments in sentences are local ones."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def controller(
    journal: Journal,
    leadership: Leadership,
    pending: Callable[..., SlurmJob],
    running: Callable[..., SlurmJob],
    monkeypatch: pytest.MonkeyPatch,
    utc: None,
) -> Controller:
    monkeypatch.setattr(time, "time", lambda: NOW)
    site = Site("cluster", "gpu", frozenset({"gpu"}), ())
    one = Controller(Config(), Sight(running, pending), journal, leadership, site, lambda: NOW)  # type: ignore[arg-type]
    one.cycle()
    return one


def steady(value: Any, key: str = "") -> Any:
    """Return the value with 0 in place of what differs from run to run."""
    if isinstance(value, dict):
        return {name: steady(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [steady(one) for one in value]
    return "text" if key == "why" else 0 if key in VOLATILE else value  # tests of the views have the sentences


@pytest.mark.parametrize("name", REQUESTS)
def test_an_answer_is_the_stored_one(controller: Controller, name: str) -> None:
    answer = json.loads(json.dumps(controller.publisher.answer(REQUESTS[name], ROOT)))
    golden.compare(json.dumps(steady(answer), indent=1).splitlines(), GOLDEN / f"{name}.json")


def test_another_order_or_form_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIRESIAS_GOLDEN", raising=False)
    (tmp_path / "one.json").write_text(json.dumps({"a": 1, "b": 2.0}, indent=1) + "\n")
    for other in ({"b": 2.0, "a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2.0, "c": None}):
        with pytest.raises(AssertionError):
            golden.compare(json.dumps(other, indent=1).splitlines(), tmp_path / "one.json")
