"""What the controller publishes has the types that protocol/ declares, and each declared key is published and documented."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from tests.slurm_plugin.sockets.test_publication import NOW, ROOT, Sight
from tiresias.durable.leadership import Leadership
from tiresias.errors import TiresiasError
from tiresias.protocol.explanation import Explanation
from tiresias.protocol.published_job import HistoryPage, PublishedJob, PublishedPastJobWithRuns
from tiresias.protocol.published_progress import PublishedProgress
from tiresias.protocol.service_report import ServiceReport
from tiresias.protocol.status import PublishedQueue, Status
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.cluster.site import Site
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.controller import Controller
from tiresias.slurm_plugin.state.journal import Journal

PAGE = Path(__file__).parents[3] / "docs/status_page.py"
ONLY_APART = {
    "owner",
    "owner_use",
    "owner_share",
    "uid",
}  # of jobs that do not compete; of jobs whose owners share GPUs


def faults(value: object, hint: Any, place: str = "") -> Iterator[str]:
    """Yield each place where `value`, as JSON has it, is not of the type `hint`."""
    origin, parts = get_origin(hint), get_args(hint)
    if hasattr(hint, "__total__"):
        yield from _of_object(value, hint, place)
    elif origin in (Union, UnionType):
        if all([*faults(value, part, place)] for part in parts):
            yield f"{place}: {value!r:.60} is not {hint}"
    elif origin is list or origin is tuple:
        if not isinstance(value, (list, tuple)) or (origin is tuple and len(value) != len(parts)):
            yield f"{place}: {value!r:.60} is not {hint}"
            return
        for index, one in enumerate(value):
            yield from faults(one, parts[index if origin is tuple else 0], f"{place}[{index}]")
    elif origin is dict:
        assert isinstance(value, dict)
        yield from (fault for key, one in value.items() for fault in faults(one, parts[1], f"{place}.{key}"))
    elif not isinstance(value, (int, float) if hint is float else hint) or (hint is int and isinstance(value, bool)):
        yield f"{place}: {value!r:.60} is not {hint}"


def _of_object(value: object, hint: Any, place: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{place}: {value!r:.60} is no object"
        return
    hints = get_type_hints(hint)
    yield from (f"{place}.{key} is not declared" for key in value.keys() - hints.keys())
    yield from (f"{place}.{key} is missing" for key in hint.__required_keys__ - value.keys())
    yield from (
        fault for key in value.keys() & hints.keys() for fault in faults(value[key], hints[key], f"{place}.{key}")
    )


@pytest.fixture
def answer(
    journal: Journal, leadership: Leadership, pending: Callable[..., SlurmJob], running: Callable[..., SlurmJob]
) -> Callable[..., Any]:
    site = Site("cluster", "gpu", frozenset({"gpu"}), ())
    one = Controller(Config(), Sight(running, pending), journal, leadership, site, lambda: NOW)  # type: ignore[arg-type]
    one.cycle()
    return lambda **request: one.publisher.answer(request, ROOT)


def test_a_fault_is_found() -> None:
    queue = dict.fromkeys(
        ("index", "running", "waiting", "gpus_running", "gpus_waiting", "starting", "gpus_starting"), 0
    )
    assert not [*faults({**queue, "low": 0.0, "high": None}, PublishedQueue)]
    assert [*faults({**queue, "low": "0", "high": None, "more": 1}, PublishedQueue)] == [
        ".more is not declared",
        ".low: '0' is not <class 'float'>",
    ]
    assert [*faults({**queue, "high": 1.0}, PublishedQueue)] == [".low is missing"]


def test_the_status_is_as_declared(answer: Callable[..., Any]) -> None:
    status = answer(op="status")
    assert not [*faults(status, Status)]
    assert status.keys() == Status.__annotations__.keys() - {"rest"}
    assert all(job.keys() == PublishedJob.__annotations__.keys() - ONLY_APART for job in status["jobs"])
    screen = answer(op="status", lines=3, cells=20)
    assert not [*faults(screen, Status)]
    assert screen.keys() == Status.__annotations__.keys()


def test_an_explanation_is_as_declared(answer: Callable[..., Any]) -> None:
    for number in ("1", "8"):  # runs, waits
        explanation = answer(op="explain", job=number)
        assert not [*faults(explanation, Explanation)]
        assert explanation.keys() == Explanation.__annotations__.keys()
    assert explanation["outlook"] is not None


def test_the_history_is_as_declared(answer: Callable[..., Any]) -> None:
    page = answer(op="history")
    assert page["jobs"]
    assert not [*faults(page, HistoryPage)]
    (job,) = answer(op="history", job="1")["jobs"]
    assert not [*faults(job, PublishedPastJobWithRuns)]


def test_the_page_documents_each_key() -> None:
    spec = importlib.util.spec_from_file_location("status_page", PAGE)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["status_page"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = "\n".join(module.lines())
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) > 150
    assert [row for row in rows if len(row) != 3 or len(row[2]) < 5] == []
    kinds = (Status, PublishedJob, ServiceReport)
    assert all(f"| `{key}` | " in text for kind in kinds for key in kind.__annotations__)


def test_the_progress_is_as_declared(answer: Callable[..., Any]) -> None:
    found = answer(op="progress", job="1")
    assert not [*faults(found, PublishedProgress)]
    assert found.keys() == PublishedProgress.__annotations__.keys()
    assert (found["losses"], found["until"], found["sizes"]) == ([], None, [])
    with pytest.raises(TiresiasError, match="job 99: not known here"):
        answer(op="progress", job="99")
