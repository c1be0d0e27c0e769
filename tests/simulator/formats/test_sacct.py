"""Slurm's accounting, as sacct prints it with bars and as JSON of several versions: the same jobs from both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tiresias.errors import UsageError
from tiresias.simulator.trace import TraceJob, read_trace

HEADER = "JobID|JobIDRaw|User|Partition|JobName|Submit|Start|End|Elapsed|ElapsedRaw|State|AllocTRES|ReqTRES"
TYPED = "billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1"
ONLY_TYPED = "cpu=8,gres/gpu:a100=2,gres/gpu:h100=1,node=2"
PLAIN = "cpu=2,gres/gpu=1,gres/gpumem=40G,gres/gpuutil=99,mem=8G,node=1"


def line(job: str, submit: int, elapsed: int, state: str, tres: str, name: str = "train", requested: str = "") -> str:
    """Submissions count seconds from 12:00."""
    moment = f"2026-01-31T12:{submit // 60:02}:{submit % 60:02}"
    user = "" if "." in job else "alice"
    written = f"{elapsed // 86400}-{elapsed // 3600 % 24:02}:{elapsed // 60 % 60:02}:{elapsed % 60:02}"
    return f"{job}|{job}|{user}|gpu|{name}|{moment}|{moment}|{moment}|{written}|{elapsed}|{state}|{tres}|{requested or tres}"


LINES = [
    HEADER,
    line("90", 5, 100, "COMPLETED", "cpu=4,mem=8G"),
    line("100", 10, 90000, "COMPLETED", TYPED),
    line("100.batch", 10, 90000, "COMPLETED", "cpu=8"),
    line("100.extern", 10, 90000, "COMPLETED", TYPED),
    line("100.0", 10, 90000, "COMPLETED", TYPED),
    line("101_3", 20, 60, "CANCELLED by 1000", ONLY_TYPED),
    line("101_[4-9%2]", 20, 0, "PENDING", "", requested=PLAIN),
    line("102", 30, 500, "REQUEUED", PLAIN),
    line("102.batch", 30, 500, "CANCELLED", PLAIN),
    line("102", 700, 50, "PREEMPTED", PLAIN),
    line("102", 900, 7, "COMPLETED", PLAIN, "second"),
    line("103+0", 40, 300, "COMPLETED", PLAIN),
    line("103+1", 40, 310, "COMPLETED", TYPED),
    line("103+1.0", 40, 310, "COMPLETED", TYPED),
    line("104", 50, 300, "RUNNING", PLAIN),
    line("105", 60, 0, "CANCELLED by 1000", "", requested=PLAIN),
]

JOBS = [
    TraceJob("100", 0.0, 4, 90000.0, "alice", "gpu", "train", "COMPLETED"),
    TraceJob("101_3", 10.0, 3, 60.0, "alice", "gpu", "train", "CANCELLED"),
    TraceJob("102", 20.0, 1, 557.0, "alice", "gpu", "second", "COMPLETED"),
    TraceJob("103", 30.0, 5, 310.0, "alice", "gpu", "train", "COMPLETED"),
]

LEFT_OUT = {("still waits or runs", 2), ("asks for no GPU", 1), ("has no start or no end", 1)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sacct"


def found(file: Path) -> set[tuple[str, int]]:
    trace = read_trace(file)
    assert trace.jobs() == JOBS
    return {(each.reason, each.count) for each in trace.dropped}


def without(*names: str) -> list[str]:
    """LINES without some columns."""
    keep = [row for row, name in enumerate(HEADER.split("|")) if name not in names]
    return ["|".join(cells[row] for row in keep) for cells in (line.split("|") for line in LINES)]


def test_rows_make_jobs(file: Path) -> None:
    """Requeued ones, arrays, heterogeneous ones, GPUs with and without a type; steps are passed over."""
    file.write_text("\n".join(LINES) + "\n")
    assert found(file) == LEFT_OUT


@pytest.mark.parametrize("gone", [("Elapsed", "Start"), ("ElapsedRaw", "End"), ("JobIDRaw", "ElapsedRaw")])
def test_columns_that_stand_in(file: Path, gone: tuple[str, ...]) -> None:
    file.write_text("\n".join(without(*gone)) + "\n")
    assert found(file) == LEFT_OUT


def test_without_what_was_asked_for(file: Path) -> None:
    """The job that never got a GPU then asks for none."""
    file.write_text("\n".join(without("ReqTRES")) + "\n")
    assert found(file) == {("still waits or runs", 2), ("asks for no GPU", 2)}


def test_start_and_end_stand_in_for_elapsed(file: Path) -> None:
    file.write_text(
        "JobID|Submit|Start|End|State|AllocTRES\n"
        "1|2026-01-31T12:00:00|2026-01-31T12:00:10|2026-02-01T12:00:10|COMPLETED|gres/gpu=2\n"
        "2|2026-01-31T12:00:00|Unknown|Unknown|PENDING|\n"
        "3|1769860800|None|1769860900|CANCELLED|gres/gpu=2\n"
    )
    trace = read_trace(file)
    assert trace.jobs() == [TraceJob("1", 0.0, 2, 86400.0, status="COMPLETED")]
    assert {each.example for each in trace.dropped} == {"2", "3"}


def test_parsable_with_a_bar_at_the_end(file: Path) -> None:
    file.write_text("".join(f"{each}|\n" for each in LINES))
    assert found(file) == LEFT_OUT


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("\n".join(without("AllocTRES", "ReqTRES")), "line 1: no column AllocTRES; run sacct -P"),
        ("\n".join(without("Elapsed", "ElapsedRaw", "End")), "line 1: no column ElapsedRaw; run sacct -P"),
        ("\n".join(without("Submit")), "line 1: no column Submit; add it"),
        (f"{HEADER}\n{line('x1', 0, 1, 'COMPLETED', PLAIN)}", "line 2, column JobID: 'x1' is not a job id of Slurm"),
        (f"{HEADER}\n{line('1', 0, 1, 'COMPLETED', PLAIN, 'a|b')}", "line 2: 14 cells for 13 columns"),
        (
            f"{HEADER}\n{line('1', 0, 1, 'COMPLETED', PLAIN).replace('00:00:01|1', '00:01|x')}",
            "column ElapsedRaw: 'x' is not",
        ),
        (
            f"{HEADER}\n{line('1', 0, 1, 'COMPLETED', PLAIN).replace('0-00:00:01|1', 'ages|1')}",
            "column Elapsed: 'ages' is no time",
        ),
    ],
)
def test_mistakes_name_the_place(file: Path, text: str, output: str) -> None:
    file.write_text(text + "\n")
    with pytest.raises(UsageError) as error:
        read_trace(file)
    assert output in str(error.value)


def test_quotation_marks_in_names_are_no_quotes(file: Path) -> None:
    file.write_text(
        f"{HEADER}\n{line('1', 0, 1, 'COMPLETED', PLAIN, chr(34) + 'a,b')}\n{line('2', 0, 1, 'FAILED', PLAIN)}\n"
    )
    assert [job.model for job in read_trace(file).jobs()] == ['"a,b', "train"]


# --- JSON


def number(value: int | None, version: int) -> Any:
    """data_parser v0.0.39 and older write null or the number, newer ones write whether it is set."""
    return value if version < 40 else {"set": value is not None, "infinite": False, "number": value or 0}


def tres(text: str) -> list[dict[str, Any]]:
    pairs = [each.split("=") for each in text.split(",") if each]
    return [
        {
            "type": kind.partition("/")[0],
            "name": kind.partition("/")[2] or None,
            "id": 1,
            "count": int(count.strip("G")),
        }
        for kind, count in pairs
    ]


def record(row: str, version: int) -> dict[str, Any]:
    """A line as JSON. Job ids of arrays and heterogeneous jobs are numbers of their own there."""
    cells = dict(zip(HEADER.split("|"), row.split("|"), strict=True))
    array, _, task = cells["JobID"].partition("_")
    leader, _, component = cells["JobID"].partition("+")
    minutes, seconds = (int(part) for part in cells["Submit"].split(":")[1:])
    state = cells["State"].split(" ")[0]
    return {
        "job_id": 5000 + int(task or 0) if task.isdecimal() else int(leader.partition("_")[0]) + int(component or 0),
        "array": {"job_id": int(array) if task else 0, "task_id": number(int(task) if task.isdecimal() else None, version)},
        "het": {"job_id": int(leader) if component else 0, "job_offset": number(int(component) if component else None, version)},
        "name": cells["JobName"], "user": cells["User"], "partition": cells["Partition"],
        "state": {"current": [state] if version >= 40 else state, "reason": "None"},
        "time": {"submission": 1769860800 + 60 * minutes + seconds, "start": 0, "end": 0, "elapsed": int(cells["ElapsedRaw"])},
        "tres": {"allocated": tres(cells["AllocTRES"]), "requested": tres(cells["ReqTRES"])},
        "steps": [{"step": {"id": "batch"}}],
    }  # fmt: skip


def dump(version: int) -> dict[str, Any]:
    rows = [row for row in LINES[1:] if "." not in row.split("|")[0]]
    return {"meta": {"plugin": {}}, "jobs": [record(row, version) for row in rows], "warnings": [], "errors": []}


@pytest.mark.parametrize("version", [37, 39, 40, 43])
def test_json_of_all_versions(file: Path, version: int) -> None:
    file.write_text(json.dumps(dump(version), indent=2))
    assert found(file) == LEFT_OUT


def test_json_jobs_last(file: Path) -> None:
    whole = dump(43)
    file.write_text(json.dumps({"meta": {"jobs": []}, "errors": [], "jobs": whole["jobs"]}))
    assert found(file) == LEFT_OUT


@pytest.mark.parametrize(
    ("change", "output"),
    [
        ({"job_id": None}, "job 1, field job_id: 'None' is not a job id of Slurm"),
        ({"time": {"submission": "noon"}}, "job 1, field time/submission: 'noon' is no number"),
        ({"time": {"submission": True}}, "job 1, field time/submission: 'True' is no number"),
        ({"time": {"submission": 1e300}}, "job 1, field time/submission: '1e+300' is no number"),
        ({"tres": {"allocated": {"gpu": 1}}}, "job 1, field tres/allocated: \"{'gpu': 1}\" is no list"),
        ({"user": {}}, "job 1, field user: '{}' is no text"),
    ],
)
def test_json_mistakes_name_the_place(file: Path, change: dict[str, Any], output: str) -> None:
    whole = dump(43)
    whole["jobs"][0] |= change
    file.write_text(json.dumps(whole))
    with pytest.raises(UsageError) as error:
        read_trace(file)
    assert output in str(error.value)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("{}", "has no list 'jobs'"),
        ('{"jobs": 7}', "'7' stands for '['"),
        ('{"jobs": []}', "has no jobs"),
        ('{"meta": 1', "'' stands for ','"),
        (json.dumps(dump(43))[:500], "is no JSON"),
    ],
)
def test_broken_json(file: Path, text: str, output: str) -> None:
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        read_trace(file)
    assert output in str(error.value)
