"""Which tries of the controller Slurm frustrated by jobs that it started itself, on made-up runs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chaos.checks import LoggedRun
from tests.chaos.own_starts import frustrated, own_starts
from tests.chaos.windows import Window, Windows

BLIND = Windows([Window(80.0, 95.0)])  # the controller was down
REFUSED = "not started: Slurm reports JobHeldAdmin; tried again in 1 s"


@pytest.fixture
def journal() -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(":memory:")
    db.execute("create table intent (id text, kind text, began real, stepped real, nodes text, outcome text)")
    yield db
    db.close()


def started(db: sqlite3.Connection, job: str, began: float, node: str, outcome: str = REFUSED) -> None:
    values = (job, "start", began, began + 15.0, json.dumps([[node, 1]]), outcome)
    db.execute("insert into intent values (?, ?, ?, ?, ?, ?)", values)


def run(number: str, start: int, node: str = "gpu04", **more: Any) -> LoggedRun:
    fields: dict[str, Any] = {"state": "COMPLETED", "limit": 0.0, "managed": True, "gpus": 1} | more
    return LoggedRun(number, 1, f"job {number}", submit=start - 1, start=start, end=start + 9, nodes=(node,), **fields)


def test_a_job_that_slurm_started_itself_while_the_controller_was_down(journal: sqlite3.Connection) -> None:
    started(journal, "8", 93.0, "gpu05", "running: on gpu05:1")
    runs = [run("7", 94), run("8", 94), run("9", 70), run("10", 110), run("11", 94, managed=False)]
    assert [each.id for each in own_starts(journal, runs, BLIND)] == ["7"]


@pytest.mark.parametrize(
    ("start", "node", "outcome", "count"),
    [
        (94, "gpu04", REFUSED, 1),
        (94, "gpu05", REFUSED, 0),  # on another node
        (80, "gpu04", REFUSED, 0),  # it ran before the decision, which saw it
        (106, "gpu04", REFUSED, 0),  # after the end of the try
        (94, "gpu04", "running: on gpu04:1", 0),
    ],
)
def test_tries_on_the_nodes_of_such_a_job(
    journal: sqlite3.Connection, start: int, node: str, outcome: str, count: int
) -> None:
    started(journal, "3", 90.0, "gpu04", outcome)
    found = list(frustrated(journal, [run("7", start, node)], lambda *_: "a"))
    assert found == [Window(90.0, 105.0, "a")] * count
