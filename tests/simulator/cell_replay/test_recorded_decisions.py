"""Recorded decisions of HiveD's implementation (microsoft/hivedscheduler 66f26ac) and those of VirtualClusters are the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.simulator.cell_replay.hived_data import configuration, needs_data, sequences
from tiresias.__main__ import main
from tiresias.simulator.cell_replay.cell_events import read_sequences
from tiresias.simulator.cell_replay.comparison import compared

# Sequences in which the published method breaks its own invariants: the event at which it does, and the first one that differs.
BROKEN = {"194": (12, 15)}
CONFIGS = ("n2x16_vc2.yaml", "r2n4x4_vc3.yaml", "n12x8_vc11.yaml", "design.yaml")


@needs_data
@pytest.mark.parametrize("config", CONFIGS)
def test_all_recorded_sequences_are_reproduced(config: str) -> None:
    spec = configuration(config)
    found = [
        compared(spec, each) for each in read_sequences(sequences("oracle_traces.jsonl.gz")) if each.config == config
    ]
    assert len(found) >= 37
    for each in found:
        if each.sequence in BROKEN:
            broken, first = BROKEN[each.sequence]
            assert each.differences[0].event == first
            assert each.published_breaks.startswith(f"event {broken}: ")
        else:
            assert each.identical, each


@needs_data
def test_sequences_that_end_the_published_implementation_break_no_invariant() -> None:
    found = [
        compared(configuration(each.config), each, invariants=True)
        for each in read_sequences(sequences("oracle_panics.jsonl.gz"))
    ]
    assert len(found) == 10
    assert [each for each in found if not each.identical] == []


SPEC = {
    "physicalCluster": {
        "cellTypes": {"NODE": {"childCellType": "GPU", "childCellNumber": 2, "isNodeLevel": True}},
        "physicalCells": [{"cellType": "NODE", "cellAddress": "n0"}],
    },
    "virtualClusters": {"a": {"virtualCells": [{"cellType": "NODE", "cellNumber": 1}]}},
}
START = {"op": "schedule", "pod": "p", "vc": "a", "priority": 0, "leaf_num": 2, "group": "g", "members": [[1, 2]]}
BIND = {"kind": "bind", "node": "n0", "leaves": [0, 1], "free_leaves": 0}


def _files(folder: Path, result: dict[str, object]) -> list[str]:
    config, file = folder / "config.json", folder / "events.jsonl"
    config.write_text(json.dumps(SPEC))
    file.write_text(json.dumps({"seed": 7, "events": [{**START, "result": result}]}) + "\n")
    return ["cells", "replay", str(config), str(file)]


def test_the_command_reports_identical_sequences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*_files(tmp_path, BIND), "--invariants"]) == 0
    assert capsys.readouterr().out == "1 of 1 sequences identical, 1 events\n"


def test_the_command_names_each_event_that_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(_files(tmp_path, {**BIND, "leaves": [1, 0]})) == 1
    out = capsys.readouterr().out
    assert out.startswith("sequence 7, event 0: {")
    assert '"leaves": [0, 1]' in out
    assert main([*_files(tmp_path, {"kind": "wait", "free_leaves": 2}), "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert (result["sequences"], result["identical"], len(result["different"])) == (1, 0, 1)
    assert result["different"][0]["differences"][0]["here"] == BIND


@pytest.mark.parametrize(
    ("config", "events", "line"),
    [
        ("[]", "", "no configuration of HiveD"),
        ("{", "", "no configuration of HiveD"),
        (json.dumps(SPEC), "{}", "line 1: no recorded sequence"),
        (json.dumps(SPEC), '{"events": [{"op": "explode"}]}', "line 1: no recorded sequence"),
        (json.dumps(SPEC), '{"events": [{"op": "bad", "node": 5}]}', "line 1: no recorded sequence"),
    ],
)
def test_an_invalid_file_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: str, events: str, line: str
) -> None:
    (tmp_path / "c.json").write_text(config)
    (tmp_path / "e.jsonl").write_text(events)
    assert main(["cells", "replay", str(tmp_path / "c.json"), str(tmp_path / "e.jsonl")]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1
