"""What `explain` publishes of Slurm's own records: dependencies with their states, and which jobs an id names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.sockets.array_tasks import chosen, grouped, matching
from tiresias.slurm_plugin.sockets.slurm_facts import dependencies, named

Make = Callable[..., SlurmJob]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("singleton(unfulfilled)", []),
        ("afterok:5(unfulfilled)", [("afterok", "5", False, "RUNNING", None)]),
        ("afterok:6(failed)", [("afterok", "6", True, "FAILED", 3)]),
        ("after:5+10(unfulfilled)", [("after", "5", False, "RUNNING", None)]),
        ("afterany:4_*(unfulfilled)", [("afterany", "4_*", False, "2 COMPLETED, 1 PENDING", 0)]),
        ("afterany:4_1(unfulfilled)", [("afterany", "4_1", False, "PENDING", None)]),
        ("afterany:99(unfulfilled)", [("afterany", "99", False, "", None)]),
        (
            "afterok:5(unfulfilled),afternotok:6(unfulfilled)?aftercorr:4_*(unfulfilled)",
            [
                ("afterok", "5", False, "RUNNING", None),
                ("afternotok", "6", False, "FAILED", 3),
                ("aftercorr", "4_*", False, "2 COMPLETED, 1 PENDING", 0),
            ],
        ),
    ],
)
def test_dependencies(pending: Make, running: Make, text: str, found: list[object]) -> None:
    jobs = [
        running(1, id="5", raw_id=5),
        running(1, id="6", raw_id=6, state="FAILED", exit_code=3, shares=()),
        pending(id="4_1", raw_id=4, array_id=4),
        *(running(1, id=f"4_{task}", raw_id=6 + task, array_id=4, state="COMPLETED", exit_code=0) for task in (2, 3)),
    ]
    shown = list(dependencies(pending(id="9", dependency=text), jobs, True))
    assert [tuple(one[name] for name in ("kind", "job", "failed", "state", "exit_code")) for one in shown] == found


def test_states_of_other_users_jobs_may_be_private(pending: Make, running: Make) -> None:
    jobs = [running(1, id="5", uid=1), running(1, id="6", uid=2)]
    waits = pending(id="9", uid=2, dependency="afterok:5(unfulfilled),afterok:6(unfulfilled)")
    assert [one["state"] for one in dependencies(waits, jobs, False)] == ["", "RUNNING"]


@given(
    st.lists(
        st.from_regex(r"after(ok|any):[0-9]{1,9}(\(failed\))?", fullmatch=True) | st.text(max_size=30), max_size=60
    )
)
def test_however_many_dependencies_twenty_are_published(texts: list[str]) -> None:
    blank: dict[str, Any] = dict.fromkeys(SlurmJob.__slots__, 0)
    job = SlurmJob(**blank | {"state": "PENDING", "dependency": ",".join(texts)})
    assert len(list(dependencies(job, [], True))) <= 20


def test_a_name_is_a_job_an_array_or_the_number_of_a_task(pending: Make) -> None:
    jobs = [pending(id="3", raw_id=3), *(pending(id=f"7_{task}", raw_id=7 + task, array_id=7) for task in range(3))]
    jobs += [pending(id=f"12+{part}", raw_id=12 + part, het_id=12) for part in range(2)]
    assert [job.id for job in named("12", jobs)] == ["12+0"], "sbatch prints this number of a heterogeneous job"
    assert [job.id for job in named("12+1", jobs)] == ["12+1"]
    assert [job.id for job in named("3", jobs)] == ["3"]
    assert [job.id for job in named("7", jobs)] == ["7_0", "7_1", "7_2"]
    assert [job.id for job in named("7_1", jobs)] == ["7_1"]
    assert [job.id for job in named("9", jobs)] == ["7_2"], "as SLURM_JOB_ID in the environment of that task"
    assert named("8_*", jobs) == []
    assert named("99", jobs) == []


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("7", ["7_0", "7_2", "7_10"]),
        ("7_[0-2]", ["7_0", "7_2"]),
        ("7_[10,0%1]", ["7_0", "7_10"]),
        ("7_2", ["7_2"]),
        ("7_[3-9]", []),
        ("70", []),
    ],
)
def test_the_tasks_that_an_id_names(expected: str, found: list[str]) -> None:
    assert matching(expected, ["7_10", "7_0", "71_3", "7_2", "7_2", "17_2"]) == found


@given(st.sets(st.integers(0, 10_000), min_size=1, max_size=40))
def test_the_tasks_of_a_range_are_all_of_it(tasks: set[int]) -> None:
    text = ",".join(map(str, sorted(tasks)))
    if len(text) <= 400:
        assert chosen(f"7_[{text}]") == ("7", frozenset(tasks))


def test_alike_tasks_are_one_group() -> None:
    def task(number: int, state: str, reason: str) -> dict[str, object]:
        return {"job": {"id": f"7_{number}", "state": state}, "slurm": {"state": state, "reason": reason}}

    found = {f"7_{at}": task(at, "WAITING", "Resources" if at < 5 else "Priority") for at in range(8)}
    found["7_8"] = {"job": {"id": "7_8", "state": "ENDED"}, "slurm": None}
    groups = [(one["tasks"], one["count"], one["job"]["id"]) for one in grouped(found)]
    assert groups == [("0-4", 5, "7_0"), ("5-7", 3, "7_5"), ("8", 1, "7_8")]


@pytest.mark.parametrize(("state", "groups"), [("RUNNING", ["0-1"]), ("WAITING", ["0", "1"])])
def test_the_queue_separates_waiting_tasks_only(state: str, groups: list[str]) -> None:
    found = {f"7_{at}": {"job": {"id": f"7_{at}", "state": state, "queue": at}, "slurm": None} for at in range(2)}
    assert [one["tasks"] for one in grouped(found)] == groups
