"""`tiresias progress`: facts, the plot in a terminal and as a file; whatever the job is called and whatever was reported."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.slurm_plugin.views.command_runs import tiresias
from tiresias.slurm_plugin.sockets.control_socket import ControlServer
from tiresias.slurm_plugin.views.progress_page import render_progress

NOW = 1_780_000_000.0
RUN: dict[str, Any] = {"restart": 0, "start": NOW - 900, "end": 0, "gpus": 4, "nodes": ["gpu01:4"], "timed": 0.5}


def answer(points: int = 60, **changes: Any) -> dict[str, Any]:
    steps = [100.0 * at for at in range(1, points + 1)]
    end = {"end": NOW + 3600, "end_low": NOW + 3000, "end_high": NOW + 5000}
    job = {
        "id": "7",
        "name": "gpt2",
        "progress": 100.0 * points,
        "total_steps": 12_000.0,
        "min_gpus": 1,
        "max_gpus": 8,
        **end,
    }
    return {
        "job": job, "runs": [RUN], "steps": steps,
        "losses": [1.0 / (0.0003 * step + 0.2) + 0.5 + 0.03 * math.sin(step) for step in steps], "reports_a_point": 2,
        "until": {"loss": 0.8}, "sizes": [{"gpus": 4, "seconds": 3600.0}, {"gpus": 8, "seconds": 2100.0}],
        "uncertain": True,
    } | changes  # fmt: skip


def drawn(found: Any, width: int = 100, height: int = 30) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, height=height).print(render_progress(found, width, height, NOW))
    return out.getvalue().split("\n")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    with ControlServer(tmp_path / "control.sock", lambda request, peer: answer()):
        yield tmp_path


def test_the_facts_and_the_plot(run: Path) -> None:
    text = " ".join(tiresias(run, "progress", "7", COLUMNS="120").stdout.split())
    for part in (
        "job 7 gpt2", "6,000 of 12,000", "a step takes 0.5s", "when its loss has fallen to 0.8",
        "time left by GPUs (1-8): 4: 1h00m, 8: 35m00s; few sizes are measured", "60 points, each the mean of 2 reports",
        "loss: reported fit interval the training ends",
    ):  # fmt: skip
        assert part in text
    assert json.loads(tiresias(run, "progress", "7", "--json").stdout)["reports_a_point"] == 2


def test_the_curve_falls_from_the_upper_left_to_the_lower_right() -> None:
    rows = [line for line in drawn(answer(until=None)) if "│" in line]
    left, right = (
        [at for at, row in enumerate(rows) if row.partition("│")[2][cells].strip()]
        for cells in (slice(3), slice(70, 80))
    )
    assert left
    assert right
    assert max(left) < min(right)


@pytest.mark.parametrize("name", ["loss.svg", "loss.png"])
def test_the_plot_as_a_file_is_the_same_each_time(run: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    files = [run / name, run / f"again-{name}"]
    for file in files:
        tiresias(run, "progress", "7", "--plot", str(file))
    first, second = (file.read_bytes() for file in files)
    assert first == second
    if name.endswith("svg"):
        assert ElementTree.fromstring(first).tag.endswith("svg")
    else:
        assert first.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "problem"),
    [(["7", "--plot", "loss.txt"], "ends with .svg or .png"), (["7", "--plot", "/no/such/loss.svg"], "cannot be written"),
     (["seven"], "is not a job id")],
)  # fmt: skip
def test_mistakes_are_one_line(run: Path, words: list[str], problem: str) -> None:
    if problem == "cannot be written":
        pytest.importorskip("matplotlib")
    found = tiresias(run, "progress", *words)
    assert found.returncode != 0
    assert problem in found.stderr
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize("points", [0, 1, 4, 5])
def test_few_losses_have_no_fit_or_no_plot(points: int) -> None:
    text = "\n".join(drawn(answer(points)))
    assert ("has reported no loss" in text) == (points == 0)
    assert ("fit" in text) == (points >= 5)


LOSSES = st.lists(st.floats(0, 1e30), min_size=0, max_size=30)


@settings(max_examples=50, deadline=None)
@given(LOSSES, st.integers(30, 200), st.integers(5, 80), st.text(max_size=30))
def test_whatever_was_reported_it_fits_the_terminal(losses: list[float], width: int, height: int, name: str) -> None:
    found = answer(steps=np.cumsum(np.ones(len(losses))).tolist(), losses=losses)
    found["job"]["name"] = name
    lines = drawn(found, width, height)
    assert max(map(cell_len, lines)) <= width
