"""Answers to viewers: a page of the status agrees with the whole status, and a waiting job has its forecast."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from rich.console import Console

from tiresias.durable.leadership import Leadership
from tiresias.protocol.explanation import PublishedSlurm
from tiresias.protocol.published_job import PublishedJob
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob, SlurmLoad, SlurmNode, SlurmSnapshot
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules
from tiresias.slurm_plugin.cluster.site import Site
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.controller import Controller
from tiresias.slurm_plugin.sockets.peer import Peer
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.views.explain import render_explanation
from tiresias.slurm_plugin.views.slurm_state import slurm_line

NOW = 50_000.0
ROOT = Peer(1, 0, 0)
NODE = SlurmNode(
    name="", state="MIXED", flags=frozenset(), reason="", gpus=4, gpus_allocated=0, gpu_type="", cpus=16,
    cpus_allocated=0, memory=64000, memory_allocated=0, features=(), partitions=("gpu",),
)  # fmt: skip


class Sight:
    """Slurm as far as a controller in mode shadow needs it: six nodes, full but for one GPU, and four jobs that wait."""

    name, why = "sight", ""

    def __init__(self, running: Callable[..., SlurmJob], pending: Callable[..., SlurmJob]) -> None:
        nodes = [f"gpu0{number}" for number in range(1, 7)]
        sizes = [4, 4, 4, 4, 4, 3]
        self.jobs = tuple(
            running(40_000 + number, id=str(number), gpus=gpus, cpus=gpus, shares=(NodeShare(node, gpus, gpus, 100),))
            for number, (node, gpus) in enumerate(zip(nodes, sizes, strict=True), 1)
        ) + tuple(
            pending(id=str(number), gpus=4, cpus=4, submit_time=49_000 + number, priority=1, nice=100 * (number == 8))
            for number in range(7, 11)
        )
        self.nodes = tuple(replace(NODE, name=node) for node in nodes)

    def version(self) -> str:
        return "26.05.0"

    def topology(self, name: str = "") -> str:
        return ""

    def load(self, uid: int) -> SlurmLoad:
        return SlurmLoad(0, 0, 0, 0, 0.0)

    def rules(self) -> SlurmRules:
        return SlurmRules()

    def snapshot(self) -> SlurmSnapshot:
        return SlurmSnapshot(NOW, self.jobs, self.nodes)


@pytest.fixture
def answer(
    journal: Journal, leadership: Leadership, pending: Callable[..., SlurmJob], running: Callable[..., SlurmJob]
) -> Callable[..., Any]:
    site = Site("cluster", "gpu", frozenset({"gpu"}), ())
    one = Controller(Config(), Sight(running, pending), journal, leadership, site, lambda: NOW)  # type: ignore[arg-type]
    one.cycle()
    return lambda **request: one.publisher.answer(request, ROOT)


def test_answers_are_made_once_a_cycle(answer: Callable[..., Any]) -> None:
    assert answer(op="status", lines=20) is answer(op="status", lines=20)
    assert answer(op="status") is answer(op="status")


def test_the_estimate_is_from_time_limits(answer: Callable[..., Any]) -> None:
    """The runs have been beyond their limit of an hour: they end any moment. Those that wait take an hour each."""
    found = [answer(op="explain", job=str(number)) for number in range(7, 11)]
    assert [one["outlook"]["estimate"] for one in found] == [NOW, NOW, NOW, NOW]
    assert [one["outlook"]["notes"] for one in found] == [
        [],
        ["--nice=100 has no effect on the order of jobs that Tiresias schedules"],
        [],
        [],
    ]
    out = Console(file=io.StringIO(), width=120, record=True)
    out.print(render_explanation(found[1], 120, NOW - 1400.0))
    text = out.export_text()
    assert "starts in about 25 min (estimate from time limits)" in text
    assert "--nice=100 has no effect" in text


def test_a_reason_with_a_detail_is_shown_once() -> None:
    pending: dict[str, Any] = {
        "state": "PENDING",
        "exit_code": None,
        "reason": "BeginTime, not before 2026-11-23T00:00:00",
    }
    line = slurm_line(cast(PublishedJob, {"id": "1"}), cast(PublishedSlurm, {**pending, "shown": "BeginTime"}))
    assert line == f"Slurm: PENDING ({pending['reason']})"
    assert "squeue shows JobHeldAdmin" in slurm_line(
        cast(PublishedJob, {"id": "1"}), cast(PublishedSlurm, {**pending, "shown": "JobHeldAdmin"})
    )


def test_a_waiting_job_has_its_forecast(answer: Callable[..., Any]) -> None:
    forecast = answer(op="explain", job="7")["outlook"]
    assert {name: forecast[name] for name in ("free", "ahead", "behind", "fixed", "others")} == {
        "free": 1,
        "ahead": 0,
        "behind": 0,
        "fixed": 23,
        "others": 0,
    }
    assert forecast["latest"] is None
    assert forecast["steps"] == [], "no running job ranks lower"
    assert "as long as they need; it ranks higher in " in forecast["why"]
    assert answer(op="explain", job="1")["outlook"] is None
