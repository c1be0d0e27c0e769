"""The judge of the GPUs that runs saw: it reports runs on other parts than those of their start, and nothing else."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.chaos.devices import SeenDevices, SelectedParts, misplaced, seen_devices, selected_parts

RUN = SeenDevices("chaos-1-1", "8", 1005.0, "gpu02", (4, 5))


def test_a_run_notes_its_gpus_on_its_first_node(tmp_path: Path) -> None:
    (tmp_path / "chaos-1-1").write_text("8 1005 gpu02 4,5\n8 1050 gpu03 0,1\n8 1060 gp")
    (tmp_path / "chaos-1-2").write_text("9 1005 gpu02 \n")
    assert seen_devices(tmp_path) == [RUN, SeenDevices("chaos-1-1", "8", 1050.0, "gpu03", (0, 1))]


@pytest.mark.parametrize(
    ("nodes", "parts", "selected"),
    [
        ('[["gpu02", 2]]', "[[0, 2]]", (0, 2)),
        ('[["gpu01", 2], ["gpu02", 2]]', "[[0, 2], [0, 2]]", (0, 2)),
        ('[["gpu01", 1], ["gpu02", 2]]', "[[0, 1], [0, 2]]", (0, 2)),
        ('[["gpu01", 8], ["gpu02", 8]]', "[[4, 4], [4, 4]]", (4, 4)),
        ('[["gpu01", 8], ["gpu02", 6]]', "[[4, 4], [3, 3]]", ()),  # may run with 7 on each
        ('[["gpu01", 2], ["gpu02", 2]]', "[[2, 0], [0, 2]]", ()),  # cannot be stated
        ('[["gpu03", 2]]', "[[0, 2]]", ()),
        ('[["gpu02", 2]]', "[]", ()),
    ],
)
def test_the_parts_are_those_of_the_last_start_on_the_node(nodes: str, parts: str, selected: tuple[int, ...]) -> None:
    db = sqlite3.connect(":memory:")
    db.execute("create table intent (kind text, id text, began real, nodes text, parts text)")
    rows = [(950.0, '[["gpu02", 2]]', "[[2, 0]]"), (1005.4, nodes, parts), (1010.0, '[["gpu02", 2]]', "[[2, 0]]")]
    db.executemany("insert into intent values ('start', '8', ?, ?, ?)", rows)
    assert list(selected_parts(db, [RUN])) == [SelectedParts(RUN, selected)]


@pytest.mark.parametrize(
    ("gpus", "broken"),
    [((0, 2), 0), ((2, 0), 1), ((0, 1), 1), ((1, 1), 0), ((4, 4), 1), ((), 0)],
)
def test_a_run_on_other_parts_is_reported(gpus: tuple[int, ...], broken: int) -> None:
    assert len(misplaced([SelectedParts(RUN, gpus)])) == broken
