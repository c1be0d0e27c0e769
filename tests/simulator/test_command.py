"""`tiresias simulate` as a user runs it."""

from __future__ import annotations

import csv
import json

import pytest

from tiresias.__main__ import main

TRACE = "job_id,submit_time,num_gpus,duration\na,0,4,100\nb,10,4,20\nc,12,1,5\n"
CLUSTER = ("--nodes", "1", "--gpus-per-node", "4")


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return path


def test_compares_policies(trace, tmp_path, capsys):
    numbers, lines = tmp_path / "out.json", tmp_path / "jobs.csv"
    options = ["--threshold", "20,400", "--json", str(numbers), "--jobs-out", str(lines)]
    assert main(["simulate", str(trace), "--policy", "las,fifo", *CLUSTER, *options]) == 0
    shown = capsys.readouterr().out
    assert "mean JCT" in shown
    policies = json.loads(numbers.read_text())["policies"]
    assert list(policies) == ["las", "fifo"]
    assert set(policies["fifo"]) == {
        "mean_jct", "median_jct", "p95_jct", "p99_jct", "makespan", "mean_queueing", "preemptions", "gpu_utilization",
        "jobs", "wall_seconds",
    }  # fmt: skip
    assert policies["fifo"]["mean_jct"] == pytest.approx((100 + 110 + 113) / 3)
    assert policies["fifo"]["mean_queueing"] == pytest.approx((0 + 90 + 108) / 3)
    assert policies["fifo"]["gpu_utilization"] == pytest.approx(485 / (4 * 125))
    assert policies["las"]["preemptions"] > 0
    with lines.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["policy"], row["job_id"]) for row in rows] == [
        (name, job) for name in ("las", "fifo") for job in "abc"
    ]
    assert {key: rows[4][key] for key in ("start", "finish", "jct", "preemptions")} == {
        "start": "100.0", "finish": "120.0", "jct": "110.0", "preemptions": "0",
    }  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.csv", "out.json", "trace.csv"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--policy", "lass", *CLUSTER],
            "--policy lass: no such policy; there are las, fifo, best_effort, sf, srtf, srsf",
        ),
        (["--policy", "las", "--nodes", "0", "--gpus-per-node", "4"], "--nodes 0: give a whole number above 0"),
        (["--policy", "las", "--nodes", "1", "--gpus-per-node", "2"], "job a asks for 4 GPUs and the cluster has 2"),
        (["--policy", "las", "--threshold", "20,10", *CLUSTER], "thresholds = (20.0, 10.0) is not possible"),
        (["--policy", "las", "--promote-knob", "nan", *CLUSTER], "promote_knob = nan is not possible"),
        (["--policy", "las", "--preemption-cost", "-1", *CLUSTER], "--preemption-cost -1: give seconds, 0 or more"),
    ],
)
def test_mistakes(trace, tmp_path, capsys, options, said):
    out = tmp_path / "out.json"
    assert main(["simulate", str(trace), *options, "--json", str(out)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err
    assert not out.exists()


def test_an_unwritable_result_is_said_in_one_line(trace, tmp_path, capsys):
    missing = tmp_path / "missing" / "out.json"
    assert main(["simulate", str(trace), "--policy", "las", *CLUSTER, "--json", str(missing)]) == 1
    assert "cannot be written: No such file" in capsys.readouterr().err


def test_threshold_that_is_no_number_is_a_usage_error(trace, capsys):
    with pytest.raises(SystemExit) as error:
        main(["simulate", str(trace), "--policy", "las", "--threshold", "many", *CLUSTER])
    assert error.value.code == 2
    assert "--threshold" in capsys.readouterr().err
