"""`tiresias interference fit` and `pairs`: results in files, and mistakes of users in one line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tiresias.__main__ import main

HEADER = "seconds,seconds_alone,cpu,cpu_same_socket\n"


def samples(folder: Path, count: int = 60) -> Path:
    chance = np.random.default_rng(1)
    lines = ["seconds,seconds_alone,cpu,cpu_same_socket,pcie,pcie_others\n"]
    for cpu, others, pcie, pcie_others in chance.uniform(0.1, 0.9, (count, 4)):
        excess = 0.1 * (np.exp(3.0 * (cpu + others)) - np.exp(3.0 * cpu)) + 0.5 * pcie * pcie_others
        lines.append(f"{2.0 + 2.0 * excess:.6f},2.0,{cpu:.6f},{others:.6f},{pcie:.6f},{pcie_others:.6f}\n")
    file = folder / "samples.csv"
    file.write_text("".join(lines))
    return file


def test_a_fit_names_the_form_that_the_samples_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["interference", "fit", str(samples(tmp_path)), "--json", str(tmp_path / "out.json")]) == 0
    assert "chosen: exponential" in capsys.readouterr().out
    found = json.loads((tmp_path / "out.json").read_text())["forms"]["exponential"]
    assert found["exponent"] == pytest.approx(3.0, rel=0.02)
    assert found["coefficients"] == pytest.approx({"cpu": 0.1, "memory": 0.0, "network": 0.0, "pcie": 0.5}, rel=0.02)


def test_all_pairs_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "pairs.csv", tmp_path / "all.csv"
    file.write_text("job_a,job_b,ratio_a\na 1,b,0.5\nb,a 1,0.8\na 2,a 2,0.6\nc,c,\n")
    assert main(["interference", "pairs", str(file), "--out", str(out)]) == 0
    assert "4 kinds of jobs, 3 of 16 ratios measured" in capsys.readouterr().out
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 16
    assert all(0.0 < float(row["low"]) <= float(row["ratio_a"]) <= float(row["high"]) <= 1.0 for row in rows)
    assert [row["measured"] for row in rows if row["measured"]] == ["0.5000", "0.6000", "0.8000"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1,0.5,0.5\n" * 5, "line 2, column seconds: '0' is not possible"),
        ("-1,1,0.5,0.5\n" * 5, "line 2, column seconds: '-1' is not possible"),
        ("1,nan,0.5,0.5\n" * 5, "line 2, column seconds_alone: 'nan' is not a number"),
        ("1,1,50000,0.5\n" * 5, "line 2, column cpu: '50000' is not possible"),
        ("1,1,0.5,0.5\n" * 5 + "5e9,1,0.5,0.5\n", "line 7, column seconds: '5e+09' is more than 1000 times off"),
        ("1,1,0.5,0.5\n" * 4, "has 4 samples; a fit needs 5 or more"),
        ("1,1,0.5\n", "line 2: 3 cells for 4 columns"),
    ],
)
def test_impossible_samples_are_one_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "samples.csv"
    file.write_text(HEADER + text)
    assert main(["interference", "fit", str(file)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,-0.5\n", "line 2, column ratio_a: '-0.5' is not possible"),
        ("a,b,50\n", "line 2, column ratio_a: '50' is not possible"),
        ("a,\x1b[31m,0.5\n", "line 2, column job_b"),
        ("a,b,0\n", "has no measured pair"),
        ("".join(f"k{row},k{row},0.5\n" for row in range(400)), "has 400 kinds of jobs"),
    ],
)
def test_impossible_pairs_are_one_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("job_a,job_b,ratio_a\n" + text)
    assert main(["interference", "pairs", str(file)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert "\x1b" not in error
