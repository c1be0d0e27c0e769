"""`tiresias checkpoint`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiresias.__main__ import main
from tiresias.checkpoint import KeepLast, Store, command
from tiresias.checkpoint.size_text import size_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for step in (10, 20):
        Store(tmp_path).save(step, {"x": b"abc"})
    return tmp_path


def test_ls(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "failed-step-5").mkdir()
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["checkpoint", "ls", str(folder)]) == 0
    output = capsys.readouterr().out
    for words in ("20", "sizes match", "set aside: failed-step-5", "B", "s"):
        assert words in output
    assert main(["checkpoint", "ls", "--json", str(folder)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["step"], one["world_size"], one["damage"]) for one in found["checkpoints"]] == [
        (20, 1, ""),
        (10, 1, ""),
    ]
    assert found["set_aside"] == ["failed-step-5"]


def test_verify_reads_every_byte(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "verify", str(folder)]) == 0
    (folder / "step-20" / "rank-0.bin").write_bytes(b"abd")
    assert main(["checkpoint", "ls", str(folder)]) == 0
    assert main(["checkpoint", "verify", "--json", str(folder)]) == 1
    assert "its hash is not" in capsys.readouterr().out
    assert (folder / "step-20").exists()
    (folder / "step-20" / "manifest.json").write_text("{")
    assert main(["checkpoint", "ls", str(folder)]) == 1


def test_prune(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for step in (30, 40):
        Store(folder, [KeepLast(9)]).save(step, {})
    prune = ["checkpoint", "prune", "--json", "--keep-every", "15", str(folder)]
    for _ in range(2):
        assert main([*prune, "--dry-run"]) == 0
        assert json.loads(capsys.readouterr().out) == [str(folder / "step-10")]
    assert main(prune) == 0
    assert json.loads(capsys.readouterr().out) == [str(folder / "step-10")]
    assert Store(folder).steps() == [40, 30, 20]
    assert main(["checkpoint", "prune", "--keep", "2", str(folder)]) == 0
    assert capsys.readouterr().out == f"removed:\n{folder}/step-20\n"


@pytest.mark.parametrize("option", [["--keep", "1"], ["--keep-every", "0"]])
def test_options_out_of_range(folder: Path, option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "prune", *option, str(folder)]) == 2
    assert "--keep is a number from 2 up" in capsys.readouterr().err
    assert Store(folder).steps() == [20, 10]


def test_no_such_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "ls", str(tmp_path / "nope")]) == 2
    assert (
        capsys.readouterr().err
        == f"tiresias: {tmp_path}/nope: no such folder; name the folder that holds the step-<n> folders\n"
    )


def test_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "ls", str(tmp_path)]) == 0
    assert "no committed checkpoint" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "0s"), (0.5, "0s"), (61, "1m 1s"), (7200, "2h 0m"), (3 * 86400 + 4 * 3600 + 59, "3d 4h")]
)
def test_ages(seconds: float, text: str) -> None:
    assert command._age(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB")])
def test_sizes(count: int, text: str) -> None:
    assert size_text(count) == text
