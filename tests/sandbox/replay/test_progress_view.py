"""The live view at a fixed width."""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text

from tiresias.sandbox.replay import progress_view
from tiresias.sandbox.replay.replay_results import ReplayProgress

PROGRESS = {"las": ReplayProgress(60, 50, 12, 30), "slurm-fifo": ReplayProgress(60, 50, 10, 15)}


def test_bars_counts_and_the_controllers_view() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(progress_view.render(PROGRESS, 10.0, 40.0, Text("queue 0: ...")))
    lines = console.export_text().splitlines()
    assert "Tiresias-L" in lines[0]
    assert [word for word in lines[0].split() if word.isdigit()] == ["30", "12", "8", "60"]
    assert [word for word in lines[1].split() if word.isdigit()] == ["15", "10", "25", "60"]
    assert "10 s, 400 s in the trace" in lines[2]
    assert lines[3] == "queue 0: ..."


def test_one_line_for_a_log() -> None:
    line = progress_view.line(PROGRESS, 10.0)
    assert (
        line == "   10 s: Tiresias-L 30/60 done, 12 running, 8 waiting; Slurm FIFO 15/60 done, 10 running, 25 waiting"
    )
