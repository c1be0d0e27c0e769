"""Philly's cluster_job_log, after its own description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tiresias.errors import UsageError
from tiresias.simulator.formats import json_stream
from tiresias.simulator.formats.trace_columns import Dropped
from tiresias.simulator.trace import TraceJob, read_trace


def attempt(start: str, end: str | None, *gpus: int) -> dict[str, Any]:
    servers = [{"ip": f"m{row}", "gpus": [f"gpu{gpu}" for gpu in range(count)]} for row, count in enumerate(gpus)]
    return {"start_time": start, "end_time": end, "detail": servers}


def job(number: int, *attempts: dict[str, Any], submitted: str = "2017-10-07 01:11:39") -> dict[str, Any]:
    return {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": f"application_{number}",
        "attempts": list(attempts),
        "submitted_time": submitted,
        "user": "ce2f4c",
    }


TWICE = job(
    1,
    attempt("2017-10-07 01:12:09", "2017-10-07 01:13:09", 8, 8),
    attempt("2017-10-07 01:14:09", "2017-10-07 02:12:09", 8),
)
LATER = job(2, attempt("2017-10-07 03:00:00", "2017-10-07 03:00:01", 1), submitted="2017-10-07 02:11:39")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster_job_log"


@pytest.mark.parametrize("indent", [None, 4])
@pytest.mark.parametrize("piece", [7, json_stream.PIECE])
def test_attempts_make_a_job(file: Path, indent: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs of the first attempt, from its start to the end of the last; wherever the pieces end in which the file is read."""
    monkeypatch.setattr(json_stream, "PIECE", piece)
    file.write_text(json.dumps([LATER, TWICE], indent=indent))
    trace = read_trace(file)
    assert trace.jobs() == [
        TraceJob("application_1", 0.0, 16, 3600.0, "ce2f4c", "ee9e8c", "", "Pass"),
        TraceJob("application_2", 3600.0, 1, 1.0, "ce2f4c", "ee9e8c", "", "Pass"),
    ]
    assert trace.finish.tolist() == [3630.0, 6502.0]


def test_what_cannot_be_replayed(file: Path) -> None:
    running = job(3, attempt("2017-10-07 01:12:09", None, 8))
    unstarted = job(4, attempt("None", "None", 8))
    backwards = job(5, attempt("2017-10-07 01:12:09", "2017-10-07 01:12:00", 8))
    file.write_text(json.dumps([TWICE, job(6), running, unstarted, backwards, job(7, attempt("None", "None"))]))
    trace = read_trace(file)
    assert len(trace) == 1
    assert trace.dropped == (
        Dropped("asks for no GPU", 2, "application_6"),
        Dropped("has no start or no end", 2, "application_3"),
        Dropped("ends before it starts", 1, "application_5"),
    )


@pytest.mark.parametrize(
    ("change", "output"),
    [
        ({"submitted_time": "noon"}, "job 1, field submitted_time: 'noon' is no time"),
        ({"attempts": {}}, "job 1, field attempts: '{}' is no list"),
        ({"attempts": [1]}, "job 1, field attempts: '[1]' is no list of objects"),
        ({"attempts": [attempt("soon", "None", 1)]}, "job 1, attempts 1, field start_time: 'soon' is no time"),
        ({"attempts": [{"detail": [{"gpus": "gpu0"}]}]}, "job 1, attempts 1, detail 1, field gpus: 'gpu0' is no list"),
        ({"jobid": "../x"}, "job 1, field jobid: '../x' is not possible"),
        ({"user": ["x"]}, "job 1, field user: \"['x']\" is no text"),
    ],
)
def test_mistakes_name_the_place(file: Path, change: dict[str, Any], output: str) -> None:
    file.write_text(json.dumps([TWICE | change, LATER]))
    with pytest.raises(UsageError) as error:
        read_trace(file)
    assert output in str(error.value)


WHOLE = json.dumps([TWICE, LATER])


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (WHOLE[:-1], "is no JSON that is known here: '' stands for ','; is the file cut short"),
        (WHOLE[:-20], "is no JSON: "),
        (WHOLE[:-1] + ",7]", "job 3 is no object"),
        (WHOLE[:-1] + "; []]", "';' stands for ','"),
        (WHOLE[:-1] + ',{"jobid": ' + "[" * 100_000 + "]", "is nested too deeply"),
        ('[{"jobid": ' + "9" * 5000 + "}]", "is "),
    ],
)
def test_broken_files(file: Path, text: str, output: str) -> None:
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        read_trace(file)
    assert output in str(error.value)
    assert len(str(error.value)) < 400


def test_one_endless_value_is_not_gathered(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "LARGEST", 10_000)
    monkeypatch.setattr(json_stream, "PIECE", 1000)
    file.write_text('[{"jobid": "' + "x" * 1_000_000)
    with pytest.raises(UsageError, match="is no JSON"):
        read_trace(file)
