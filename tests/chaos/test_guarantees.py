"""What the campaign with virtual clusters judges in retrospect, on made-up runs: a judge reports violations, and nothing else."""

from __future__ import annotations

import sqlite3

import pytest

from tests.chaos.guarantees import (
    BOUND,
    GAP,
    Grant,
    Shown,
    cells_of_starts,
    crossed,
    elsewhere,
    entitled_starts,
    grants,
    keeps_its_limit,
    kept_out,
    late,
    outages_of,
    overbooked,
)
from tests.chaos.tenants import GPUS_PER_NODE, OWNED, PARTED, Tenant, whole_nodes
from tests.chaos.windows import Window, Windows

DEADLINE = 6.0
ALLOWED = DEADLINE + BOUND + 1.0
TENANTS = {"vision": Tenant("vision", 2, in_one_rack=True), "speech": Tenant("speech", 1)}
OF = {"a": "vision", "b": "vision", "c": "speech"}
TABLES = (
    "create table run (key text, restart integer, start real, end real)",
    """create table intent (seq integer primary key, key text, id text, restart integer, kind text, beneficiary text, began real,
    outcome text, cells text)""",
)


def journal(*intents: tuple[object, ...], runs: tuple[tuple[object, ...], ...]) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    for table in TABLES:
        db.execute(table)
    db.executemany("insert into run values (?, ?, ?, ?)", runs)
    words = "insert into intent (key, id, restart, kind, beneficiary, began, outcome, cells) values (?, ?, ?, ?, ?, ?, ?, ?)"
    db.executemany(words, intents)
    return db


START = ("k8", "8", 0, "start", "", 1004.0, "running: on gpu01:8", "gpu01=node")
VICTIM = ("k7", "7", 0, "preempt", "8", 1000.0, "parked: 2 s after the decision", "gpu01=node")


def test_a_grant_counts_from_the_first_preemption_for_the_job() -> None:
    assert grants(journal(START, runs=(("k8", 0, 1005.0, 0.0),))) == [Grant("8", 1004.0, 1005.0, frozenset({"gpu01"}))]
    (found,) = grants(journal(START, VICTIM, runs=(("k8", 0, 1005.0, 0.0),)))
    assert found.decided == 1000.0


@pytest.mark.parametrize(("reason", "decided"), [("JobArrayTaskLimit", 1004.0), ("Resources", 980.0)])
def test_a_start_that_the_throttle_of_the_array_refused_does_not_count(reason: str, decided: float) -> None:
    refused = (*START[:5], 980.0, f"not started: Slurm reports {reason}; tried again in 1 s", "gpu03=node")
    assert [one.decided for one in grants(journal(refused, START, runs=(("k8", 0, 1005.0, 0.0),)))] == [decided]


def test_decisions_for_an_earlier_run_do_not_count() -> None:
    again = ("k8", "8", 1, "start", "", 1030.0, "running: on gpu01:8", "gpu01=node")
    found = grants(journal(VICTIM, START, again, runs=(("k8", 0, 1005.0, 1020.0), ("k8", 1, 1031.0, 0.0))))
    assert [one.decided for one in found] == [1000.0, 1030.0]


def test_opportunistic_starts_are_no_grants() -> None:
    assert grants(journal((*START[:-1], ""), runs=(("k8", 0, 1005.0, 0.0),))) == []


def test_the_cells_of_a_run_are_those_of_the_last_start_before_it() -> None:
    """A slurmctld that was killed forgot the first run, and the second one has the same restart count."""
    again = (*START[:5], 1010.0, "running: on gpu05:8", "gpu05=node")
    db = journal(START, again, runs=())
    runs = [("8", 1005.0), ("8", 1010.0), ("8", 1009.0), ("8", 1200.0), ("9", 1005.0)]
    found = cells_of_starts(db, [(job, start, 1000.0) for job, start in runs])
    assert found == ["gpu01=node", "gpu05=node", "gpu05=node", "", ""]
    assert cells_of_starts(db, [("8", 1005.0, 1004.5)]) == [""], "the start was that of an earlier job with this id"


@pytest.mark.parametrize(("seconds", "broken"), [(0.0, 0), (ALLOWED - 0.1, 0), (ALLOWED + 0.1, 1)])
def test_a_guaranteed_job_runs_soon(seconds: float, broken: int) -> None:
    found, waits = late(
        [Grant("8", 1000.0, 1000.0 + seconds, frozenset({"gpu01"}))], DEADLINE, Windows(), lambda *_: "a"
    )
    assert len(found) == broken
    assert waits == pytest.approx([seconds])


@pytest.mark.parametrize(
    ("window", "broken"),
    [
        (Window(1000, 1005), 0),
        (Window(1000, 1005, "gpu01"), 0),
        (Window(1000, 1005, "a"), 0),
        (Window(1000, 1005, "gpu02"), 1),
        (Window(900, 999), 1),
        (Window(1014, 1016), 1),
    ],
)
def test_outages_do_not_count(window: Window, broken: int) -> None:
    slow = Grant("8", 1000.0, 1015.0, frozenset({"gpu01"}))
    assert len(late([slow], DEADLINE, Windows([window]), lambda *_: "a")[0]) == broken


def test_overlapping_outages_count_once() -> None:
    slow = Grant("8", 1000.0, 1030.0, frozenset({"gpu01"}))
    twice = Windows([Window(1000, 1010), Window(1001, 1009), Window(1005, 1012)])
    assert late([slow], DEADLINE, twice, lambda *_: "a")[1] == [pytest.approx(18.0)]


def test_only_changes_of_one_job_are_outages() -> None:
    changes = Windows([Window(1, 2), Window(3, 4, "a")])
    found = outages_of([(5.0, 6.0)], [("gpu01", 7.0, 8.0)], changes).found
    assert found == [Window(5.0, 6.0), Window(7.0, 8.0, "gpu01"), Window(3, 4, "a")]


def waits(seconds: int, running: frozenset[str] = frozenset(), windows: Windows | None = None, gpus: int = 8) -> int:
    samples = [Shown(1000.0 + at, frozenset({"a"}), running, {}) for at in range(seconds + 1)]
    sizes = {"a": gpus, "b": GPUS_PER_NODE, "c": 8}
    return len(kept_out(samples, OF, sizes, DEADLINE, windows or Windows(), TENANTS)[0])


def test_a_job_within_the_cells_of_its_tenant_does_not_wait() -> None:
    assert waits(13) == 0
    assert waits(14) == 1
    assert waits(60, gpus=24) == 0, "it is larger than its virtual cluster"
    assert waits(60, running=frozenset({"b"})) == 1
    assert waits(60, running=frozenset({"b"}), gpus=16) == 0, "another job of its virtual cluster holds a node"
    assert waits(60, running=frozenset({"c"}), gpus=16) == 1, "that of another one does not count"
    assert waits(60, windows=Windows([Window(1000.0 + at, 1001.0 + at) for at in range(0, 60, 10)])) == 0


def test_jobs_that_start_at_once_in_the_cells_of_their_tenant_are_counted() -> None:
    def found(gpus: int, waits: float = 0.0, gap: float = 1.0) -> set[str]:
        rest, cells = frozenset({"b"}), {"b": ("gpu01",)}
        before = Shown(1000.0, frozenset({"a"}) if waits else frozenset(), rest, cells)
        after = Shown(1000.0 + gap, frozenset(), rest | {"a"}, {**cells, "a": ("gpu02",)})
        return entitled_starts([before, after], OF, {"a": gpus, "b": 8, "c": 8}, TENANTS)

    assert found(8) == {"a"}
    assert found(16) == set(), "its tenant owns two nodes"
    assert found(8, waits=1.0) == set(), "it waited"
    assert found(8, gap=GAP + 1.0) == set(), "it may have waited in between"


def test_a_gap_between_samples_is_no_evidence() -> None:
    samples = [Shown(1000.0 + 10 * at, frozenset({"a"}), frozenset(), {}) for at in range(10)]
    assert kept_out(samples, OF, {"a": 8}, DEADLINE, Windows(), TENANTS) == ([], 1)


def test_runs_on_other_nodes_than_their_cells_are_reported() -> None:
    both = frozenset({"gpu01", "gpu02"})
    assert elsewhere([("a", both, both)]) == []
    assert len(elsewhere([("a", both, frozenset({"gpu01"})), ("b", both, frozenset({"gpu01", "gpu03"}))])) == 2


def test_slurm_may_keep_a_limit_of_nodes_that_it_did_not_show() -> None:
    both = frozenset({"gpu01", "gpu02"})
    assert keeps_its_limit(both, ("gpu01",), 1)
    assert not keeps_its_limit(both, ("gpu01",), 2)
    assert not keeps_its_limit(both, ("gpu03",), 1)
    assert not keeps_its_limit(both, ("gpu01", "gpu02"), 2)


@pytest.mark.parametrize(
    ("guaranteed", "broken"),
    [
        ({"a": ("gpu01", "gpu02"), "c": ("gpu03",)}, 0),
        ({"a": ("gpu01",), "b": ("gpu01",)}, 0),  # one virtual cluster, one node
        ({"a": ("gpu01",), "c": ("gpu01",)}, 1),
        ({"c": ("gpu01", "gpu02")}, 1),  # speech owns one node
        ({"a": ("gpu01",), "b": ("gpu04",)}, 1),  # vision owns a rack
    ],
)
def test_cells_are_held_once_and_no_more_than_owned(guaranteed: dict[str, tuple[str, ...]], broken: int) -> None:
    nothing = frozenset[str]()
    samples = [Shown(float(at), nothing, nothing, guaranteed) for at in range(2)]
    assert len(overbooked(samples, OF, lambda node: int(node[3:]) // 4, TENANTS)) == broken
    assert overbooked(samples[:1], OF, lambda node: 0, TENANTS) == [], (
        "queue and status of one sample are not of one moment"
    )


def test_no_guaranteed_run_is_preempted_for_another_virtual_cluster() -> None:
    few, many = (Shown(at, frozenset(waiting), frozenset({"a"}), {}) for at, waiting in ((0.0, "c"), (1.0, "bc")))
    sizes = {"a": 8, "b": 16, "c": 8}
    found = [("a", "b", 0.5), ("a", "unknown", 0.5), ("unknown", "a", 0.5)]
    assert crossed(found, [few, few], OF, sizes, TENANTS) == []
    assert len(crossed([("a", "c", 0.5)], [few, few], OF, sizes, TENANTS)) == 1
    assert crossed([("a", "c", 0.5)], [few, many], OF, sizes, TENANTS) == [], (
        "a job of its own may have taken the cells"
    )


def test_the_tenants_fit_into_the_cluster() -> None:
    assert sum(tenant.nodes for tenant in OWNED.values()) == 11
    assert [whole_nodes(gpus) for gpus in (1, 8, 9, 16)] == [1, 1, 2, 2]


def test_a_tenant_of_sockets_holds_jobs_within_one() -> None:
    """Two sockets may be on one node or on two, so that a job of a whole node may find none."""
    sockets = PARTED["robots"]
    assert sockets.table["cells"] == [{"level": "socket", "count": 8}]
    assert (sockets.holds([4] * 8), sockets.holds([1] * 9), sockets.holds([5])) == (True, False, False)
    nodes = OWNED["robots"]
    assert (nodes.holds([1] * 4), nodes.holds([8, 8, 16]), nodes.holds([8, 8, 16, 1])) == (True, True, False)
    assert sum(tenant.nodes for tenant in PARTED.values()) == 11
