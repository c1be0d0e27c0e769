"""The end of a run as squeue reports it, and all that may go wrong with squeue."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.polling import pauses
from tests.wrappers.fake_squeue import FakeSqueue
from tiresias.wrappers import end_query
from tiresias.wrappers.end_query import EndAnswer, EndQuery, answer_in

NOW, INF = 1_000_000.0, float("inf")


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("4|999940|1000060\n", 1000060.0),
        ("4|999940|1000060   \n", 1000060.0),
        ("8|999940|1000000001\n4|999940|1000060\n7|999940|1000000002\n", 1000060.0),
        ("4|999940|NONE\n", INF),
        (f"4|999940|{999940 + 365 * 86400}\n", INF),
    ],
)
def test_what_squeue_prints(text: str, end: float) -> None:
    """The first row of an array or a heterogeneous job need not be the run's."""
    assert answer_in(text, "4", NOW) == EndAnswer(end)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it printed nothing"),
        ("\n \n", "it printed nothing"),
        ("slurm_load_jobs error: Invalid job id specified\n", "Invalid job id specified"),
        ("14|999940|1000060\n", "14|999940|1000060"),
        ("4|N/A|N/A\n", "4|N/A|N/A"),
        ("4|999940|Unknown\n", "Unknown"),
        ("4|2026-11-28T04:26:00|2026-11-28T04:29:00\n", "2026-11-28"),
        ("4|999940|1000060|x\n", "1000060|x"),
        ("4|-5|1000060\n", "-5"),
        ("4|1000060|1000060\n", "started at 1000060 and ended at 1000060"),
        ("4|1000070|1000060\n", "started at 1000070"),
        ("4|5|10\n", "started at 5 and ended at 10"),
        (f"4|5|{'9' * 5000}\n", "ended at 99999999999999999999"),
        ("4|\u0665|\u0669\u0669\u0669\u0669\u0669\u0669\u0669\u0669\n", "4|"),
        ("\x1b[2Jx\x00\n", "?[2Jx?"),
        ("x" * 100_000, "x" * 200),
    ],
)
def test_what_is_no_answer(text: str, problem: str) -> None:
    found = answer_in(text, "4", NOW).problem
    assert problem in found
    assert len(found) < 300
    assert found.isprintable()


def test_a_job_without_an_id_has_no_row() -> None:
    assert answer_in("|999940|1000060\n", "", NOW).problem


def answer(query: EndQuery) -> EndAnswer:
    """Begin a query and wait for its answer."""
    assert query.begin() == ""
    pause, deadline = pauses(), time.monotonic() + 20
    while not (found := query.poll()):
        assert time.monotonic() < deadline
        pause()
    assert not query.runs
    return found


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def query(**env: str) -> EndQuery:
    return EndQuery({**os.environ, "SLURM_JOB_ID": "4", **env})


def test_squeue_gets_the_job_and_no_options_of_the_users_environment(path: Path) -> None:
    squeue = FakeSqueue(path)
    end = squeue.reports("4", 60)
    asked = query(SQUEUE_STATES="PD", SLURM_CLUSTERS="b", SLURM_WORKING_CLUSTER="c:10.0.0.1:6817:9728", SLURM_CONF="/x")
    assert answer(asked) == EndAnswer(end)
    (call,) = squeue.calls
    assert call.splitlines()[0] == "--noheader --all --local --jobs=4 --format=%A|%S|%e"
    assert {"SLURM_TIME_FORMAT=%s", "SLURM_CONF=/x"} <= set(call.splitlines())
    assert not any(word in call for word in ("SQUEUE_", "SLURM_CLUSTERS", "WORKING_CLUSTER", "SLURM_JOB_ID"))


def test_a_second_query_is_a_new_one(path: Path) -> None:
    squeue, asked = FakeSqueue(path), query()
    squeue.prints("nonsense")
    assert answer(asked).problem == "squeue: nonsense"
    end = squeue.reports("4", 60)
    assert answer(asked) == EndAnswer(end)


def test_what_squeue_writes_to_stderr_is_the_reason(path: Path) -> None:
    FakeSqueue(path, then="echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")
    assert "Unable to contact slurm controller" in answer(query()).problem


def test_a_squeue_that_is_killed(path: Path) -> None:
    FakeSqueue(path, then="kill -9 $$")
    assert answer(query()).problem == "squeue: it printed nothing"


def test_more_than_a_pipe_holds(path: Path) -> None:
    """An array of very many tasks. The output is not read while squeue prints."""
    squeue = FakeSqueue(path)
    end = int(time.time()) + 60
    rows = "".join(f"{number}|{end - 60}|{end}\n" for number in range(100_000, 150_000))
    squeue.prints(f"{rows}4|{end - 60}|{end}\n")
    assert answer(query()) == EndAnswer(float(end))


@pytest.mark.parametrize("mode", [None, 0o644])
def test_no_squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int | None) -> None:
    if mode:
        FakeSqueue(tmp_path).path.chmod(mode)
    monkeypatch.setenv("PATH", str(tmp_path))
    asked = query()
    assert asked.begin() in ("there is no squeue here", "squeue: Permission denied")
    assert not asked.runs
    assert asked.poll() is None


def test_a_squeue_that_does_not_end_is_killed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeSqueue(path, then="exec sleep 1000")
    monkeypatch.setattr(end_query, "QUERY_TIMEOUT_S", 0.2)
    began = time.monotonic()
    assert answer(query()).problem == "squeue: it printed nothing"
    assert time.monotonic() - began < 10


def test_a_query_that_is_ended_leaves_no_process(path: Path) -> None:
    FakeSqueue(path, then=f"echo $$ > {path}/pid; exec sleep 1000")
    asked, pause, deadline = query(), pauses(), time.monotonic() + 20
    assert asked.begin() == ""
    while not (path / "pid").exists() or not (pid := (path / "pid").read_text().strip()):
        assert time.monotonic() < deadline
        pause()
    asked.end()
    while not asked.poll():
        assert time.monotonic() < deadline
        pause()
    assert not Path(f"/proc/{pid}").exists()
