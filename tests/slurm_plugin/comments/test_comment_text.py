"""The text of a waiting job's comment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import JobState
from tiresias.scheduler.reason_codes import Reason, ReasonCode
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.comments import rounding
from tiresias.slurm_plugin.comments.waiting_text import LONGEST, is_own_comment, waiting_comments

CONFIG = PolicyConfig(name="las", min_run_cost_factor=0.0)
_SPEC = spec_from_file_location("snapshots", Path(__file__).parents[2] / "scheduler" / "conftest.py")
assert _SPEC
assert _SPEC.loader
snapshots = module_from_spec(_SPEC)
sys.modules["snapshots"] = snapshots  # its dataclasses look there
_SPEC.loader.exec_module(snapshots)
build: Any = snapshots.Builder()


def texts(
    pending: Callable[..., SlurmJob], waiting: list[Any], starts: dict[str, float] | None = None, **more: Any
) -> Any:
    """Four GPUs that a job holds, and jobs that wait for them."""
    holder = build.Job("held", 4, JobState.RUNNING, 1.0, 1.0, last_start=999.0, movable=False)
    snapshot = build([holder, *waiting], [build.Node(4)])
    records = [pending(id=job.id, raw_id=int(job.id.partition("_")[0]), gpus=job.gpus, **more) for job in waiting]
    found = waiting_comments(snapshot, decide(snapshot, CONFIG), records, starts or {})
    return {one.name: one.text for one in found}


def test_place_request_and_estimate(pending: Callable[..., SlurmJob]) -> None:
    jobs = [build.Job(str(number), 2, submit=float(number)) for number in range(1, 5)]
    found = texts(pending, jobs, {"1": 0.0, "2": 1400.0, "3": 9000.0})
    assert found == {
        "1": "Tiresias: 1st of 4; needs 2 GPUs; about 1 min (estimate)",
        "2": "Tiresias: 2nd of 4; needs 2 GPUs; about 25 min (estimate)",
        "3": "Tiresias: 3rd of 4; needs 2 GPUs; about 3 h (estimate)",
        "4": "Tiresias: 4th of 4; needs 2 GPUs",
    }


def test_reasons(pending: Callable[..., SlurmJob]) -> None:
    jobs = [
        build.Job("1", 9, submit=1.0),
        build.Job("2", 1, submit=2.0, eligible=False, obstacle="AssocGrpGRES"),
        build.Job("3", 1, submit=3.0, eligible=False),
        build.Job("4", 1, submit=4.0, free_only=True, obstacle="QOSMaxGRESPerUser"),
    ]
    found = list(texts(pending, jobs).values())
    assert sorted(found) == [
        "Tiresias: 2nd of 4; blocked by Slurm: AssocGrpGRES; needs 1 GPU",
        "Tiresias: 3rd of 4; the last start failed, it is retried soon; needs 1 GPU",
        "Tiresias: 4th of 4; Slurm refused its start: QOSMaxGRESPerUser; retried on free GPUs; needs 1 GPU",
        "Tiresias: cannot run: requests 9 GPUs, the managed nodes have 4",
    ]


def test_a_job_of_a_virtual_cluster_has_its_place_there(pending: Callable[..., SlurmJob]) -> None:
    jobs = [build.Job(str(number), gpus, submit=float(number)) for number, gpus in ((1, 2), (2, 9), (3, 1))]
    holder = build.Job("held", 4, JobState.RUNNING, 1.0, 1.0, last_start=999.0, movable=False)
    snapshot = build([holder, *jobs], [build.Node(4)])
    plan = decide(snapshot, CONFIG)
    unbound = replace(plan, why={3: Reason(ReasonCode.UNBOUND, "prod-a")})
    records = [pending(id=job.id, raw_id=int(job.id), gpus=job.gpus) for job in jobs]
    assert [one.text for one in waiting_comments(snapshot, unbound, records, {}, "prod-a")] == [
        "Tiresias: 1st of 3 in virtual cluster prod-a; needs 2 GPUs",
        "Tiresias: 2nd of 3 in virtual cluster prod-a; needs 9 GPUs, its virtual cluster owns 4: only opportunistically",
        "Tiresias: 3rd of 3 in virtual cluster prod-a; needs 1 GPU; the free GPUs there are on no nodes that fit",
    ]


def test_a_requested_node_that_is_not_available(pending: Callable[..., SlurmJob]) -> None:
    """No estimate is given for it."""
    name = build([], [build.Node(4)]).nodes.name[0]
    requests = [replace(snapshots.ANYWHERE, nodes=frozenset(nodes)) for nodes in ({name}, {name, "gone"})]
    jobs = [build.Job(str(number), 1, submit=float(number), request=one) for number, one in enumerate(requests, 1)]
    assert texts(pending, jobs, {"1": 60.0, "2": 60.0}) == {
        "1": "Tiresias: 1st of 2; needs 1 GPU; about 1 min (estimate)",
        "2": "Tiresias: 2nd of 2; requested node gone not available; needs 1 GPU",
    }


def test_tasks_that_share_a_record_have_one_text(pending: Callable[..., SlurmJob]) -> None:
    jobs = [build.Job(f"7_{task}", 1, submit=float(task)) for task in range(3)]
    found = texts(pending, jobs, array_id=7)
    assert found == {"7_[0-2]": "Tiresias: 1st of 3; first of 3 tasks; needs 1 GPU"}


@pytest.mark.parametrize("other", [{"priority": 5}, {"reason": "JobHeldUser"}, {"completing": True}])
def test_a_job_that_the_controller_does_not_hold_has_none(pending: Callable[..., SlurmJob], other: Any) -> None:
    assert not texts(pending, [build.Job("1")], **other)


def test_the_reason_of_slurm_is_one_short_line(pending: Callable[..., SlurmJob]) -> None:
    strange = "a\nb\x1b[2J\u202e" + "x" * 500
    found = texts(pending, [build.Job("1", eligible=False, obstacle=strange)])["1"]
    assert is_own_comment(found)
    assert len(found) == LONGEST
    assert found.isascii()
    assert found.isprintable()


@given(st.integers(1, 10**6))
def test_numbers_are_coarse(number: int) -> None:
    rounded = rounding.count(number)
    assert abs(rounded - number) <= (0 if number <= 20 else number / 4)
    assert rounding.count(rounded) == rounded
    assert len(str(rounded).rstrip("0")) <= 2


@given(st.floats(0.0, 40 * 86400.0), st.floats(0.0, 1e5))
def test_an_estimate_is_rounded_up(seconds: float, more: float) -> None:
    words = [rounding.estimate(one) for one in (seconds, seconds + more)]
    sizes = [_seconds(one) if one else 1e9 for one in words]
    assert sizes[0] <= sizes[1]
    assert sizes[0] >= seconds
    assert rounding.estimate(-1.0) == rounding.estimate(float("inf")) == ""


def _seconds(words: str) -> float:
    number, unit = words.split()
    return float(number) * {"min": 60, "h": 3600, "day": 86400, "days": 86400}[unit]


def test_ordinals() -> None:
    found = [rounding.ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 20)]
    assert found == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "20th"]
    found = [rounding.ordinal(number) for number in (21, 42, 123, 4567)]
    assert found == ["about 20th", "about 40th", "about 120th", "about 4600th"]
