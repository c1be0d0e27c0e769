"""Answers to `explain` for arrays, dependencies and hidden jobs, from a controller that has seen one snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.slurm_plugin.sockets.test_publication import NOW, Sight
from tiresias.durable.leadership import Leadership
from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.cluster.site import Site
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.controller import Controller
from tiresias.slurm_plugin.sockets.array_tasks import MAX_TASKS
from tiresias.slurm_plugin.sockets.explain_requests import ExplainRequest, Explanations
from tiresias.slurm_plugin.sockets.history_pages import HistoryPages
from tiresias.slurm_plugin.sockets.privacy import OPEN, Privacy
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow

ALICE, BOB = 1001, 1002  # the former has all jobs of the snapshot
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(
    journal: Journal, leadership: Leadership, pending: Callable[..., SlurmJob], running: Callable[..., SlurmJob]
) -> Ask:
    sight = Sight(running, pending)
    tasks = [
        pending(id=f"11_{task}", raw_id=11, array_id=11, gpus=1, cpus=1, submit_time=49_020, priority=1)
        for task in range(3, MAX_TASKS + 100)
    ]
    waits = pending(
        id="12", raw_id=12, reason="Dependency", dependency="afterok:1(unfulfilled),afterany:11_*(unfulfilled)"
    )
    sight.jobs += (*tasks, waits)
    site = Site("cluster", "gpu", frozenset({"gpu"}), ())
    one = Controller(Config(), sight, journal, leadership, site, lambda: NOW)  # type: ignore[arg-type]
    one.cycle()
    journal.save_job(JobRow("11_0@1", "11_0", ALICE, 49_020.0, ended=True, over=49_500.0))
    newest = one.publisher._published()

    def answer(job: str, uid: int = ALICE, privacy: Privacy = OPEN, progress: bool = False) -> dict[str, Any]:
        shown = {each["id"]: each for each in one.publisher._status()["jobs"]}
        explanations = Explanations(journal.path, HistoryPages(journal.path, privacy), privacy)
        request = ExplainRequest(job, uid, newest, shown)
        return explanations.progress(request) if progress else explanations.answer(request)

    return answer


def test_an_array_has_its_ended_and_its_waiting_tasks(ask: Ask) -> None:
    found = ask("11")
    assert (found["array"], found["count"]) == ("11", MAX_TASKS + 98)
    ended, *waiting = found["groups"]
    assert (ended["tasks"], ended["job"]["state"], ended["slurm"]) == ("0", "ENDED", None)
    assert sum(group["count"] for group in found["groups"]) == MAX_TASKS, "one answer has so many tasks"
    assert {group["job"]["state"] for group in waiting} == {"WAITING"}
    assert ask("11_[0-5]")["count"] == 4
    assert ask("11_0")["job"]["state"] == "ENDED"
    assert ask("11_[3]")["job"]["id"] == "11_3", "one task is explained in full"
    assert "decisions" in ask("11_[3]")


@pytest.mark.parametrize("job", ["99", "11_5000", "11_[5000-5001]", "1_[0-3]"])
def test_what_is_not_known(ask: Ask, job: str) -> None:
    with pytest.raises(TiresiasError, match="not known here") as raised:
        ask(job)
    assert f"job {job}: " in str(raised.value)


@pytest.mark.parametrize("job", ["1", "11", "11_[3-4]", "11_3", "11_0", "12"])
def test_a_hidden_job_is_as_unknown_as_one_that_does_not_exist(ask: Ask, job: str) -> None:
    privacy = Privacy(frozenset({"jobs"}), frozenset({0}))
    assert ask(job, ALICE, privacy)
    assert ask(job, 0, privacy)
    with pytest.raises(TiresiasError) as hidden:
        ask(job, BOB, privacy)
    with pytest.raises(TiresiasError) as unknown:
        ask("99", BOB, privacy)
    assert str(hidden.value).replace(f"job {job}:", "job 99:") == str(unknown.value)


def test_a_dependent_job(ask: Ask) -> None:
    found = ask("12")
    assert (found["job"]["state"], found["slurm"]["reason"]) == ("NOT COMPETING", "Dependency")
    states = [(one["job"], one["state"]) for one in found["slurm"]["depends_on"]]
    assert states == [("1", "RUNNING"), ("11_*", f"{MAX_TASKS + 97} PENDING")]


def test_an_array_has_no_progress_of_its_own(ask: Ask) -> None:
    with pytest.raises(TiresiasError, match="job 11: an array has no progress of its own; name a task, such as 11_"):
        ask("11", progress=True)
    assert ask("11_3", progress=True)["losses"] == []
