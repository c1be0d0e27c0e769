"""What each user sees under each value of PrivateData."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.slurm_plugin.sockets.privacy import Privacy

ALICE, OPERATOR = 1001, 2000
WORDS = st.frozensets(st.sampled_from(["jobs", "usage", "nodes", "users", "accounts", "none", ""]))
STATUS: dict[str, Any] = {
    "version": 1,
    "queues": [{"running": 2}],
    "jobs": [{"id": "1", "user": "alice"}, {"id": "2", "user": "bob"}],
    "decisions": [{"job": "1", "why": "x"}, {"job": "2", "why": "y"}],
    "nodes": [{"name": "gpu01", "gpus": 4, "allocations": [["1", 1], ["2", 2]], "other_gpus": 1}],
}


@pytest.mark.parametrize("private", ["jobs", "usage"])
def test_jobs_of_others_are_gone_and_their_gpus_are_somebodys(private: str) -> None:
    seen = Privacy(frozenset({private}), frozenset({0})).view(STATUS, ALICE, {"1"})
    assert [job["id"] for job in seen["jobs"]] == ["1"]
    assert [one["job"] for one in seen["decisions"]] == ["1"]
    assert seen["nodes"] == [{"name": "gpu01", "gpus": 4, "allocations": [["1", 1]], "other_gpus": 3}]
    assert seen["queues"] == STATUS["queues"]


def test_accounts_of_others_are_hidden_in_totals() -> None:
    sums = {"runs": 1.0, "preemptions": 0.0, "waited": 2.0, "saving": 0.0, "restoring": 0.0, "redone": 0.0}
    rows = [{"partition": "gpu", "account": name, **sums} for name in ("bio", "chem")]
    seen = Privacy(frozenset({"usage"}), frozenset({0})).view(STATUS | {"totals": rows}, ALICE, {"1"})
    assert seen["totals"] == [{"partition": "gpu", "account": "", **{name: 2 * value for name, value in sums.items()}}]


def test_nodes_are_hidden_apart() -> None:
    privacy = Privacy(frozenset({"nodes"}), frozenset({0}))
    assert privacy.view(STATUS, ALICE, {"1"}) == STATUS | {"nodes": []}
    assert not privacy.hides_jobs_from(ALICE)


@given(WORDS)
def test_nothing_is_hidden_from_overseers_and_nothing_where_slurm_hides_nothing(words: frozenset[str]) -> None:
    privacy = Privacy(words, frozenset({0, OPERATOR}))
    assert not privacy.hides_from(OPERATOR)
    assert not privacy.hides_from(0)
    assert privacy.hides_from(ALICE) == bool(words & {"jobs", "usage", "nodes"})
    if not privacy.hides_from(ALICE):
        assert privacy.view(STATUS, ALICE, {"1"}) == STATUS


@given(WORDS, st.sets(st.sampled_from(["1", "2"])))
def test_a_view_never_changes_what_is_published_and_counts_every_gpu(words: frozenset[str], own: set[str]) -> None:
    before = repr(STATUS)
    seen = Privacy(words).view(STATUS, ALICE, own)
    assert repr(STATUS) == before
    for node in seen["nodes"]:
        assert sum(gpus for _, gpus in node["allocations"]) + node["other_gpus"] == 4
