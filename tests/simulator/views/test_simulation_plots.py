"""The figures are drawn; no test can check that they look right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.__main__ import main

TRACE = "job_id,submit_time,num_gpus,duration\na,0,4,100\nb,10,4,20\nc,12,1,5\nd,12,1,0\n"
NAMES = ["jct.png", "jct.svg", "utilization.png", "utilization.svg", "waiting.png", "waiting.svg"]


def simulate(trace: Path, *options: str) -> int:
    return main(["simulate", str(trace), "--policy", "las,fifo", "--nodes", "1", "--gpus-per-node", "4", *options])


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return path


def test_draws_the_same_figures_each_time(trace: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    one, two = tmp_path / "one", tmp_path / "two"
    assert simulate(trace, "--plot", str(one)) == 0
    assert simulate(trace, "--plot", str(two)) == 0
    assert sorted(path.name for path in one.iterdir()) == NAMES
    for name in NAMES:
        assert (one / name).read_bytes() == (two / name).read_bytes()
        assert (one / name).stat().st_size > 5000
    for words in ("las", "fifo", "JCT, seconds"):
        assert f"<!-- {words} -->" in (one / "jct.svg").read_text()


def test_without_matplotlib_nothing_is_simulated(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiresias.simulator.views.simulation_plots.find_spec", lambda name: None)
    assert simulate(trace, "--plot", str(tmp_path / "plots"), "--json", str(tmp_path / "out.json")) == 2
    captured = capsys.readouterr()
    assert captured.err == "tiresias: --plot needs matplotlib; install it with: pip install 'slurm-tiresias[plot]'\n"
    assert captured.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["trace.csv"]


def test_a_file_in_the_folders_place(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert simulate(trace, "--plot", str(trace)) == 2
    assert "trace.csv: cannot be made a folder for plots: File exists" in capsys.readouterr().err
