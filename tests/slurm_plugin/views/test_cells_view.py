"""`tiresias cells` at fixed sizes against golden files, and as users start it."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.example_cells import NOW, example_cells
from tests.golden import compare
from tests.pseudo_terminal import LEAVE, Terminal
from tests.slurm_plugin.views.command_runs import tiresias
from tiresias.errors import TiresiasError, UsageError
from tiresias.slurm_plugin.sockets.control_socket import ControlServer
from tiresias.slurm_plugin.sockets.peer import Peer
from tiresias.slurm_plugin.sockets.shown_cells import NO_VIRTUAL_CLUSTERS
from tiresias.slurm_plugin.views.cells_page import render_cells
from tiresias.slurm_plugin.views.svg_rendering import as_svg
from tiresias.slurm_plugin.views.table_layout import UNLIMITED

GOLDEN = Path(__file__).parent / "golden"
DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def cells() -> dict[str, Any]:
    return example_cells()


def drawn(cells: dict[str, Any], width: int, height: int, only: str = "") -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None)
    console.print(render_cells(cells, width, height, NOW, only))  # type: ignore[arg-type]  # as JSON gives it
    return out.getvalue().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (110, 60), (150, 50), (UNLIMITED, 10)])
def test_golden(cells: dict[str, Any], width: int, height: int) -> None:
    name = "pipe" if width == UNLIMITED else f"{width}x{height}"
    compare(drawn(cells, width, height), GOLDEN / f"cells-{name}.txt")


def test_golden_of_one_virtual_cluster(cells: dict[str, Any]) -> None:
    compare(drawn(cells, 110, 60, "research"), GOLDEN / "cells-research-110x60.txt")


@pytest.mark.parametrize("width", [30, 60, 80, 100, 200])
@pytest.mark.parametrize("height", [3, 10, 24, 100])
def test_any_size_holds(cells: dict[str, Any], width: int, height: int) -> None:
    lines = drawn(cells, width, height)
    assert len(lines) <= height
    assert max(map(cell_len, lines)) <= width


def test_the_picture_of_the_manual_is_the_present_view(cells: dict[str, Any]) -> None:
    svg = as_svg(render_cells(cells, 110, 60, NOW), 110, "tiresias cells")  # type: ignore[arg-type]
    compare(svg.splitlines(), DOCS / "cells.svg")


def test_equal_cells_have_one_line() -> None:
    free = [
        {"type": "leaf", "name": str(at), "state": "free", "gpus": 32, "nodes": [f"a{at}", f"b{at}"]}
        for at in range(14)
    ]
    used = {**free[0], "name": "14", "state": "opportunistic", "opportunistic": 8, "jobs": [["7", 8]]}
    cells = example_cells() | {"hardware": [*free[:5], used, *free[5:]]}
    lines = [line for line in drawn(cells, 150, 200) if line.startswith(("14 leaves", "leaf 14"))]
    assert [line.split("  ")[0] for line in lines] == ["14 leaves", "leaf 14: a0 to b0"]
    assert " free " in lines[0]
    assert "0/448" in lines[0]


def test_a_pinned_cell_is_shown_with_its_hardware(cells: dict[str, Any]) -> None:
    pinned = {"type": "node", "name": "speech/2", "state": "free", "gpus": 8, "bound": "1/gpu07", "pinned": "gpu07"}
    place = {"type": "node", "name": "gpu07", "state": "owned", "gpus": 8, "bound": "speech/2", "pinned": "gpu07"}
    clusters = [each | {"cells": [pinned] if each["name"] == "speech" else []} for each in cells["virtual_clusters"]]
    lines = drawn(cells | {"virtual_clusters": clusters, "hardware": [place]}, 110, 60)
    [virtual, hardware] = [line.split() for line in lines if line.startswith("node ")]
    assert virtual[:5] == ["node", "speech/2", "pinned:", "gpu07", "free"]
    assert hardware[:5] == ["node", "gpu07", "speech/2,", "pinned", "owned"]


def test_a_low_page_counts_the_parts_of_cells(cells: dict[str, Any]) -> None:
    text = "\n".join(drawn(cells, 150, 29))
    assert "3 nodes used, 1 node free" in text
    assert "node gpu01" not in text


def test_names_of_users_change_no_layout(cells: dict[str, Any]) -> None:
    hostile = json.loads(
        json.dumps(cells).replace("research", "\\u001b[2J\\u202ex\\n").replace("gpu05", "\\u001b]0;x\\u0007")
    )
    lines = drawn(hostile, 110, 60)
    assert len(lines) == len(drawn(cells, 110, 60))
    assert not any("\x1b" in line or "\u202e" in line for line in lines)


def test_an_unknown_virtual_cluster_is_one_line(cells: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"^no virtual cluster prod; there are prod-a, research, speech$"):
        drawn(cells, 80, 24, "prod")


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What the control socket answers, which a test may change."""
    shown = example_cells() | {"time": time.time()}

    def answer(request: dict[str, Any], peer: Peer) -> dict[str, Any]:
        assert request == {"op": "cells"}
        if "error" in shown:
            raise TiresiasError(shown["error"])
        return dict(shown)

    with ControlServer(tmp_path / "control.sock", answer):
        yield shown


def test_into_a_pipe(answers: dict[str, Any], tmp_path: Path) -> None:
    done = tiresias(tmp_path, "cells")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  node gpu07" in done.stdout
    assert not any(line.endswith(" ") for line in done.stdout.splitlines())


def test_json_of_one_virtual_cluster(answers: dict[str, Any], tmp_path: Path) -> None:
    found = json.loads(tiresias(tmp_path, "cells", "--json", "--virtual-cluster", "speech").stdout)
    assert [each["name"] for each in found["virtual_clusters"]] == ["speech"]
    assert found["hardware"] == answers["hardware"]


def test_an_svg(answers: dict[str, Any], tmp_path: Path) -> None:
    assert tiresias(tmp_path, "cells", "--svg", str(tmp_path / "a.svg")).returncode == 0
    assert "research/0" in (tmp_path / "a.svg").read_text()
    done = tiresias(tmp_path, "cells", "--svg", str(tmp_path / "none" / "a.svg"))
    assert done.stderr == f"tiresias: {tmp_path}/none/a.svg: cannot be written: No such file or directory\n"


def test_errors_are_one_line(answers: dict[str, Any], tmp_path: Path) -> None:
    answers["error"] = NO_VIRTUAL_CLUSTERS
    done = tiresias(tmp_path, "cells")
    assert (done.returncode, done.stderr) == (1, f"tiresias: {NO_VIRTUAL_CLUSTERS}\n")
    none = tiresias(tmp_path / "none", "cells")
    assert (none.returncode, len(none.stderr.splitlines())) == (1, 1)


def test_watch_chooses_a_virtual_cluster_and_ends(answers: dict[str, Any], tmp_path: Path) -> None:
    keep = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    env = keep | {"TIRESIAS_PATHS_RUN": str(tmp_path), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    terminal = Terminal([sys.executable, "-m", "tiresias", "cells", "--watch"], env, (110, 60))
    try:
        terminal.shows("cells of 3 virtual clusters", "cells of research")
        terminal.press(b"j")
        terminal.shows("cells of 1 of 3 virtual clusters", "hardware that prod-a uses")
        answers["error"] = "slurmctld does not answer"
        terminal.shows("slurmctld does not answer", "hardware that prod-a uses")
        del answers["error"]
        terminal.press(b"a")
        terminal.shows("cells of 3 virtual clusters", "cells of research")
        terminal.press(b"q")
        terminal.read_until(LEAVE)
        assert terminal.process.wait(timeout=20) == 0
    finally:
        terminal.close()
