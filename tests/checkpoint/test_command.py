"""`tiresias checkpoint`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiresias.__main__ import main
from tiresias.checkpoint import Store
from tiresias.checkpoint.retention import KeepLast


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for step in (10, 20):
        Store(tmp_path).save(step, {"x": b"abc"})
    return tmp_path


def test_ls(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "ls", str(folder)]) == 0
    assert "20" in capsys.readouterr().out
    assert main(["checkpoint", "ls", "--json", str(folder)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["step"], one["world_size"], one["damage"]) for one in found] == [(20, 1, ""), (10, 1, "")]


def test_verify_reads_every_byte(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "verify", str(folder)]) == 0
    (folder / "step-20" / "rank-0.bin").write_bytes(b"abd")
    assert main(["checkpoint", "ls", str(folder)]) == 0
    assert main(["checkpoint", "verify", "--json", str(folder)]) == 1
    assert "its hash is not" in capsys.readouterr().out
    assert (folder / "step-20").exists()


def test_prune(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store(folder, [KeepLast(5)]).save(30, {})
    assert main(["checkpoint", "prune", "--json", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out) == [str(folder / "step-10")]
    assert Store(folder).steps() == [30, 20]


def test_no_such_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "ls", str(tmp_path / "nope")]) == 2
    assert (
        capsys.readouterr().err
        == f"tiresias: {tmp_path}/nope: no such folder; name the folder that holds the step-<n> folders\n"
    )


def test_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "ls", str(tmp_path)]) == 0
    assert "no committed checkpoint" in capsys.readouterr().err
