"""Pages of the history: each user receives what Slurm would show, and cursors reveal nothing of others' jobs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.sockets import history_pages
from tiresias.slurm_plugin.sockets.cursor import Cursors
from tiresias.slurm_plugin.sockets.history_pages import HistoryPages
from tiresias.slurm_plugin.sockets.privacy import OPEN, Privacy
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_history import FIRST_POSITION, HistoryPosition
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow

ALICE, BOB, ROOT = 1001, 1002, 0


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path)
    yield made
    made.close()


def add(journal: Journal, number: int, uid: int = ALICE, submit: float = 1000.0, over: float = 0.0) -> JobRow:
    row = JobRow(f"{number}@{submit:g}", str(number), uid, submit, ended=over > 0, over=over)
    journal.save_job(row)
    return row


def pages(journal: Journal, by: int = ROOT, privacy: Privacy = OPEN, **asked: Any) -> list[list[str]]:
    asks, found, place = HistoryPages(journal.path, privacy), [], None
    while True:
        page = json.loads(json.dumps(asks.answer({"op": "history", "after": place, **asked}, by)))
        found.append([job["id"] for job in page["jobs"]])
        if not (place := page["next"]):
            return found


def test_every_job_comes_once_those_that_live_first(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_pages, "JOBS_PER_PAGE", 3)
    for number in range(10):
        add(journal, number, over=0.0 if number % 3 == 0 else 5000.0 - number)
    found = pages(journal)
    assert [len(page) for page in found] == [3, 3, 3, 1]
    assert [job for page in found for job in page] == ["0", "3", "6", "9", "8", "7", "5", "4", "2", "1"]


def test_a_window_leaves_out_what_was_over_before_or_came_after(journal: Journal) -> None:
    add(journal, 1, over=2000.0)
    add(journal, 2, over=4000.0)
    add(journal, 3, submit=4500.0)
    add(journal, 4)
    assert pages(journal, since=3000.0, until=4400.0) == [["4", "2"]]


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    overs=st.lists(st.sampled_from([0.0, 10.0, 20.0, 30.0]), max_size=12),
    since=st.sampled_from([0.0, 10.0, 15.0, 99.0]),
)
def test_pages_of_any_size_hold_the_same(
    tmp_path_factory: pytest.TempPathFactory, overs: list[float], since: float
) -> None:
    made = Journal(tmp_path_factory.mktemp("journal"))
    for number, over in enumerate(overs):
        add(made, number, submit=1.0, over=over)
    expected = {str(number) for number, over in enumerate(overs) if over == 0 or over >= since}
    for limit in (1, 2, 5, 100):
        place, found = FIRST_POSITION, []
        while rows := made.jobs_after(place, since, limit):
            assert len(rows) <= limit
            found += rows
            place = HistoryPosition(rows[-1].over, rows[-1].key)
        assert len(found) == len(expected)
        assert {row.id for row in found} == expected
    made.close()


@pytest.mark.parametrize(("uid", "seen"), [(ALICE, ["1"]), (BOB, ["2"]), (ROOT, ["1", "2"]), (4242, [])])
def test_private_data_holds(journal: Journal, uid: int, seen: list[str]) -> None:
    privacy = Privacy(frozenset({"jobs"}), frozenset({ROOT}))
    add(journal, 1, ALICE)
    add(journal, 2, BOB)
    assert pages(journal, uid, privacy) == [seen]
    assert pages(journal, uid, privacy, uid=BOB) == [[one for one in seen if one == "2"]]
    for job in ("1", "2"):
        if job in seen:
            assert HistoryPages(journal.path, privacy).answer({"job": job}, uid)["jobs"][0]["id"] == job
        else:
            with pytest.raises(TiresiasError, match=f"job {job}: not in the journal"):
                HistoryPages(journal.path, privacy).answer({"job": job}, uid)


def attack(past_of: HistoryPages, uid: int) -> set[str]:
    """Ids, submit and end times of others' jobs that a user reads out of cursors, whatever the times at which the window begins."""
    found: set[str] = set()
    for since in range(0, 3000, 2):
        page = json.loads(json.dumps(past_of.answer({"op": "history", "since": float(since)}, uid)))
        found |= {job["id"] for job in page["jobs"] if job["uid"] != uid}
        if page["next"]:
            found |= set(re.findall(r"[0-9]+@[0-9]+", json.dumps(page["next"]))) | {f"ends at {page['next'][0]}"}
    return found


def test_cursors_reveal_nothing_of_other_users_jobs(journal: Journal) -> None:
    for number in range(1000):
        add(journal, number, BOB, submit=1000.0 + number, over=2000.0 + number)
    add(journal, 5000, ALICE, submit=1.0, over=1500.0)
    privacy = Privacy(frozenset({"jobs"}), frozenset({ROOT}))
    assert attack(HistoryPages(journal.path, privacy), ALICE) == set()


def test_pages_depend_on_the_jobs_that_a_user_may_see_alone(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_pages, "JOBS_PER_PAGE", 3)
    privacy = Privacy(frozenset({"jobs"}), frozenset({ROOT}))
    for number in range(7):
        add(journal, number, ALICE, over=2000.0 + 100 * number)
    before = pages(journal, ALICE, privacy)
    for number in range(50):
        add(journal, 100 + number, BOB, over=2000.0 + 13 * number)
    assert pages(journal, ALICE, privacy) == before == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    assert len(pages(journal, ROOT, privacy)) == 57 // 3 + 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda cursor: cursor[:-8],
        lambda cursor: ("B" if cursor[0] == "A" else "A") + cursor[1:],
        lambda cursor: [0.0, ""],
        lambda cursor: 5,
        lambda cursor: "\u00e9",
        lambda cursor: "A" * 5000,
    ],
)
def test_a_cursor_of_ones_own_making_is_refused(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[str], object]
) -> None:
    monkeypatch.setattr(history_pages, "JOBS_PER_PAGE", 1)
    add(journal, 1, over=2000.0)
    add(journal, 2, over=3000.0)
    asks = HistoryPages(journal.path, OPEN)
    cursor = asks.answer({"op": "history"}, ALICE)["next"]
    assert asks.answer({"op": "history", "after": cursor}, ALICE)["jobs"][0]["id"] == "2"
    for after, uid, one in (
        (spoil(cursor), ALICE, asks),
        (cursor, BOB, asks),
        (cursor, ALICE, HistoryPages(journal.path, OPEN)),
    ):
        with pytest.raises(TiresiasError, match="start again from the first page"):
            one.answer({"op": "history", "after": after}, uid)


@given(st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=100), st.integers(0, 2**31))
def test_a_cursor_leads_back_to_its_place(over: float, key: str, uid: int) -> None:
    cursors = Cursors()
    cursor = cursors.seal(HistoryPosition(over, key), uid)
    assert cursors.place(cursor, uid) == (over, key)
    assert cursor != cursors.seal(HistoryPosition(over, key), uid), "equal positions must not have equal cursors"


def test_one_job_with_its_runs_and_their_beneficiaries(journal: Journal) -> None:
    row = add(journal, 7, over=2000.0)
    add(journal, 7, BOB, submit=10.0, over=20.0)  # of the user who had the id before
    journal.save_run(RunRow(row.key, 0, 1010.0, 1100.0, 4, "gpu01:4", pause=2.0))
    journal.save_run(RunRow(row.key, 1, 1200.0, 2000.0, 4, "gpu01:4"))
    for restart, kind, outcome in (
        (0, IntentKind.PREEMPT, "parked: 2.00 s"),
        (1, IntentKind.PREEMPT, "left running: x"),
        (1, IntentKind.START, ""),
    ):
        move = Intent(
            row.key, "7", restart, kind, IntentStep.HOLD, beneficiary="12" if kind == IntentKind.PREEMPT else ""
        )
        journal.begin(move)
        journal.finish(move, outcome)
    new, old = HistoryPages(journal.path, OPEN).answer({"job": "7"}, ROOT)["jobs"]
    assert (new["preemptions"], new["saving"], new["served"]) == (1, 8.0, 4 * 890.0)
    assert [run["beneficiary"] for run in new["each_run"]] == ["12", ""]
    assert (old["uid"], old["each_run"]) == (BOB, [])


@pytest.mark.parametrize(
    "asked",
    [
        {"since": "x"},
        {"until": math.nan},
        {"uid": "bob"},
        {"uid": []},
    ],
)
def test_nonsense_is_refused_in_one_line(journal: Journal, asked: dict[str, Any]) -> None:
    with pytest.raises(TiresiasError, match="a history request is"):
        HistoryPages(journal.path, OPEN).answer({"op": "history", **asked}, ALICE)


@pytest.mark.parametrize("query", ["select * from job where id = '7'", "select * from intent where key = '7@1'"])
def test_one_job_is_found_by_an_index(journal: Journal, query: str) -> None:
    plan = journal._db.execute(f"explain query plan {query}").fetchall()
    assert [row[-1].startswith("SEARCH") for row in plan] == [True]


def test_a_page_reads_no_more_rows_than_it_shows(journal: Journal) -> None:
    query = "select key from job where (over, key) > (?, ?) and over <= ? order by over, key limit ?"
    of_one = query.replace("where", "where uid = ? and")
    for words, values, index in ((query, (), "by_end"), (of_one, (ALICE,), "by_owner")):
        asked = journal._db.execute(f"explain query plan {words}", (*values, 1.0, "", math.inf, 5))
        plan = " ".join(row[-1] for row in asked)
        assert "SEARCH job USING" in plan
        assert index in plan
        assert "TEMP B-TREE" not in plan


def test_the_tasks_of_an_array_are_found_by_its_number(journal: Journal) -> None:
    for name in ("7_0", "7_10", "7_2", "70_1", "77", "17_7"):
        journal.save_job(JobRow(f"{name}@1", name, ALICE, 1.0))
    journal.save_job(JobRow("7_0@2", "7_0", ALICE, 2.0))  # a later job with this id
    assert sorted(journal.ids_of("7")) == ["7_0", "7_10", "7_2"]
    assert journal.ids_of("77") == ["77"]
    assert journal.ids_of("8") == []
    query = "select distinct id from job where id = ?1 or (id > ?1 || '_' and id < ?1 || '`')"
    plan = " ".join(row[-1] for row in journal._db.execute(f"explain query plan {query}", ("7",)))
    assert "SCAN" not in plan, plan


def test_of_an_array_a_task_is_named(journal: Journal) -> None:
    journal.save_job(JobRow("7_2@1", "7_2", ALICE, 1.0))
    with pytest.raises(
        TiresiasError, match="job 7: an array, whose tasks have runs of their own; name one, such as 7_2"
    ):
        HistoryPages(journal.path, OPEN).answer({"job": "7"}, ALICE)
    privacy = Privacy(frozenset({"jobs"}), frozenset({ROOT}))
    with pytest.raises(TiresiasError, match="job 7: not in the journal"):
        HistoryPages(journal.path, privacy).answer({"job": "7"}, BOB)
