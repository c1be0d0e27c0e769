"""`tiresias interference measure`: real steps beside real load; the samples are those that `fit` reads."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiresias.__main__ import main
from tiresias.profiler.interference import load_generators
from tiresias.simulator.interference.interference_samples import read_samples


def test_samples_of_all_levels_are_written_and_read(tmp_path: Path) -> None:
    out = tmp_path / "samples.csv"
    command = [sys.executable, "-m", "tiresias", "interference", "measure", "--seconds", "0.05", "--out", str(out)]
    levels = ["--cpu", "0,0.5", "--memory", "0,1"]
    done = subprocess.run([*command, *levels], capture_output=True, text=True, check=True)  # it sets its own affinity
    assert done.stdout.startswith("9 samples on ")
    found = read_samples(out)
    assert len(found.slowdown) == 9
    assert found.contention.memory.max() > 0.0
    with out.open() as file:
        used = {float(row["cpu_same_socket"]) for row in csv.DictReader(file)}
    assert used == {0.5, 1.0, 1.5}


def test_no_generator_outlives_the_measurement() -> None:
    def children() -> set[str]:
        found = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        return {each for each in found if "load_generators" in Path(f"/proc/{each}/cmdline").read_text()}

    with load_generators.loads(1.5, 1.0):
        assert len(children()) == 3
    assert not children()


def test_a_generator_whose_parent_was_killed_ends() -> None:
    command = (
        "import os; from tiresias.profiler.interference.load_generators import loads\nwith loads(1.0, 0.0): os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", command], stdout=subprocess.PIPE, timeout=60, check=True)
    assert done.stdout == b""  # read to its end: no process has the pipe any more


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--seconds", "0"), "--seconds 0: write a number from 0.05 to 60"),
        (("--cpu", "0,x"), "--cpu '0,x': write numbers from 0 to 16"),
        (("--memory", "nan"), "--memory 'nan': write numbers from 0 to 16"),
        (("--repeat", "0"), "--repeat and --seed: write a number from 1 to 100"),
        (("--out", "missing/samples.csv"), "missing/samples.csv: cannot be written: No such file"),
    ],
)
def test_mistakes_are_one_line(
    options: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["interference", "measure", "--out", "out.csv", *options]) in (1, 2)
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
