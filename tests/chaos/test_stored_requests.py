"""The judge of stored requests, on made-up rows."""

from __future__ import annotations

import sqlite3

import pytest

from tests.chaos.stored_requests import changed_requests, other_node_counts


@pytest.mark.parametrize(
    ("row", "broken"),
    [
        (("7", 1000.0, 2, 2, "", ""), 0),
        (("7", 1000.0, 1, 1, "", ""), 1),
        (("7", 1000.0, 2, 0, "", ""), 0),
        (("7", 1000.0, 1, 0, "", ""), 1),
        (("7", 1000.0, 2, 1000000, "", ""), 1),
        (("7", 1000.0, 2, 2, "gpu01,gpu02", ""), 1),
        (("7", 1000.0, 2, 2, "", "gpu03"), 1),
    ],
)
def test_a_request_that_is_not_the_owners_is_reported(row: tuple[object, ...], broken: int) -> None:
    db = sqlite3.connect(":memory:")
    db.execute("create table job (id, submit, min_nodes, max_nodes, required, excluded)")
    db.executemany("insert into job values (?, ?, ?, ?, ?, ?)", [row, ("8", 1000.0, 1, 0, "", "")])
    found, judged = changed_requests(db, lambda job, _: {"7": "mine"}.get(job, ""), {"mine": 2})
    assert (len(found), judged) == (broken, 1)


def test_a_run_on_more_nodes_than_requested_is_reported() -> None:
    runs = [("mine", 2), ("mine", 3), ("other", 3)]
    assert other_node_counts(runs, {"mine": 2}) == ["mine ran on 3 nodes, not 2"]
