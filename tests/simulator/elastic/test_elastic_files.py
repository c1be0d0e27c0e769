"""Elastic jobs and measured speeds in files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tiresias.__main__ import main
from tiresias.errors import UsageError
from tiresias.simulator.elastic.speed_file import read_speeds, with_speeds
from tiresias.simulator.elastic_job import JobSize, proportional
from tiresias.simulator.trace import read_trace

HEADER = "job_id,submit_time,num_gpus,duration,model,min_gpus,max_gpus,gpu_step\n"
SPEEDS = "model,gpus,nodes,steps_per_second\nm,1,1,1\nm,2,1,1.9\nm,4,1,3.5\nm,8,2,5\n"


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_empty_cells_are_neutral(tmp_path: Path) -> None:
    rows = "a,0,4,100,m,2,8,2\nb,0,4,100,m,,,\nc,0,4,100,m,,6,\nd,0,4,100,m,1,,3\n"
    found = [
        one and (one.least, one.most, one.step) for one in read_trace(written(tmp_path, "t.csv", HEADER + rows)).elastic
    ]
    assert found == [(2, 8, 2), None, (4, 6, 1), (1, 4, 3)]
    assert read_trace(written(tmp_path, "t.csv", HEADER + "b,0,4,100,m,,,\n")).elastic == ()


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("a,0,4,100,m,5,8,1", "line 2, column min_gpus: '5' is not possible; write num_gpus (4) at most"),
        ("a,0,4,100,m,1,3,1", "line 2, column max_gpus: '3' is not possible; write num_gpus (4) at least"),
        ("a,0,4,100,m,1,8,0", "line 2, column gpu_step: '0' is not possible"),
        ("a,0,4,100,m,1.5,8,1", "line 2, column min_gpus: '1.5' is not possible"),
        ("a,0,4,100,m,x,8,1", "line 2, column min_gpus: 'x' is not a number"),
    ],
)
def test_a_mistake_names_its_cell(row: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape(problem)):
        read_trace(written(tmp_path, "t.csv", HEADER + row + "\n"))


def test_speeds_are_those_measured_and_fitted_in_between(tmp_path: Path) -> None:
    file = written(tmp_path, "s.csv", SPEEDS)
    trace = with_speeds(read_trace(written(tmp_path, "t.csv", HEADER + "a,0,4,100,m,1,8,1\n")), read_speeds(file), file)
    assert trace.elastic[0] is not None
    speed = trace.elastic[0].speed
    assert speed(JobSize((4,))) == pytest.approx(3.5, rel=0.1)
    assert speed(JobSize((1,))) < speed(JobSize((3,))) < speed(JobSize((4,)))
    assert speed(JobSize((4, 4))) == pytest.approx(5.0, rel=0.1)


def test_a_model_with_servers(tmp_path: Path) -> None:
    rows = "".join(f"m,{p + w},1,{1 / (8 / w + 2 * w / p)},{p}\n" for p in (1, 2, 4) for w in (1, 2, 4))
    speeds = read_speeds(written(tmp_path, "s.csv", f"model,gpus,nodes,steps_per_second,servers\n{rows}"))
    assert speeds["m"].has_servers
    assert speeds["m"](JobSize((6,), 4)) == pytest.approx(1 / (8 / 2 + 2 * 2 / 4), rel=0.15)
    assert speeds["m"](JobSize((2,))) == 0.0, "it has no server"
    trace = read_trace(written(tmp_path, "t.csv", HEADER + "a,0,4,100,m,1,8,1\n"))
    with pytest.raises(UsageError, match="job a: sizes 1 to 8 by 1 are not possible"):
        with_speeds(trace, speeds, tmp_path / "s.csv")


@pytest.mark.parametrize(
    ("speeds", "problem"),
    [
        ("model,gpus,nodes,steps_per_second\nx,1,1,1\n", "has no model 'm' of job a"),
        ("model,gpus,nodes,steps_per_second\nm,1,1,0\n", "model 'm': give speeds above 0"),
        ("model,gpus,nodes,steps_per_second\nm,1,2,1\n", "no more nodes than GPUs"),
        ("model,gpus,nodes,steps_per_second,servers\nm,2,1,1,1\nm,1,1,1,0\n", "rows with and without servers"),
        ("model,gpus,nodes\nm,2,1\n", "no column steps_per_second"),
        ("model,gpus,nodes,steps_per_second\nm,2,1,inf\n", "column steps_per_second: 'inf' is not a number"),
    ],
)
def test_impossible_speeds_are_refused(speeds: str, problem: str, tmp_path: Path) -> None:
    trace, file = written(tmp_path, "t.csv", HEADER + "a,0,4,100,m,1,8,1\n"), written(tmp_path, "s.csv", speeds)
    with pytest.raises(UsageError, match=re.escape(problem)):
        with_speeds(read_trace(trace), read_speeds(file), file)


def test_speeds_need_elastic_jobs(tmp_path: Path) -> None:
    trace, file = written(tmp_path, "t.csv", HEADER + "a,0,4,100,m,,,\n"), written(tmp_path, "s.csv", SPEEDS)
    with pytest.raises(UsageError, match="no job of the trace is elastic"):
        with_speeds(read_trace(trace), read_speeds(file), file)


def test_presets_on_a_trace_with_elastic_jobs(tmp_path: Path) -> None:
    trace = written(tmp_path, "t.csv", HEADER + "a,0,4,1000,m,1,8,1\nb,100,4,500,m,1,8,1\n")
    out = tmp_path / "out.json"
    options = ["--speeds", str(written(tmp_path, "s.csv", SPEEDS)), "--json", str(out), "--interval", "0"]
    assert (
        main(["simulate", str(trace), "--nodes", "2", "--gpus-per-node", "4", "--preset", "optimus,drf,las", *options])
        == 0
    )
    found = json.loads(out.read_text())["policies"]
    assert list(found) == ["optimus", "drf", "las"]
    assert found["optimus"]["resizes"] > 0
    assert found["las"]["resizes"] == 0
    assert found["optimus"]["mean_jct"] < found["las"]["mean_jct"]


def test_without_speeds_a_job_is_twice_as_fast_on_twice_the_gpus(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, "t.csv", HEADER + "a,0,4,100,m,1,8,1\n"))
    assert trace.elastic[0] is not None
    assert trace.elastic[0].speed is proportional


def test_fitted_predictions_and_samples_by_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = written(tmp_path, "t.csv", HEADER + "a,0,4,4000,m,1,8,1\n")
    out = tmp_path / "out.json"
    options = [
        "--nodes",
        "2",
        "--gpus-per-node",
        "4",
        "--speeds",
        str(written(tmp_path, "s.csv", SPEEDS)),
        "--json",
        str(out),
    ]
    found = {}
    for samples in (0, 4):
        sizing = [
            "--policy",
            "las",
            "--sizing",
            "marginal_gain",
            "--predictions",
            "fitted",
            "--size-samples",
            str(samples),
        ]
        assert main(["simulate", str(trace), *options, *sizing]) == 0
        found[samples] = json.loads(out.read_text())["policies"]["las"]["resizes"]
    assert found[0] < 3 <= found[4], "each sample but the first is a change of size"
    assert main(["simulate", str(trace), *options, "--policy", "las", "--predictions", "none"]) != 0
    assert "--predictions 'none' is not possible; there are true, fitted" in capsys.readouterr().err
