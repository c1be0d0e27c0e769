from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.errors import TiresiasError, UsageError
from tiresias.simulator.views import output


def test_writes_text_and_bytes_and_leaves_nothing_else(tmp_path: Path) -> None:
    output.write({tmp_path / "a": ["one\n", "two\n"], tmp_path / "b": b"\x00"})
    assert (tmp_path / "a").read_text() == "one\ntwo\n"
    assert (tmp_path / "b").read_bytes() == b"\x00"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_all_or_none(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("old")
    with pytest.raises(TiresiasError, match="b: cannot be written: No such file"):
        output.write({kept: ["new"], tmp_path / "missing" / "b": ["x"]})
    assert kept.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_text_that_breaks_leaves_nothing(tmp_path: Path) -> None:
    def text() -> Iterator[str]:
        yield "half"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        output.write({tmp_path / "a": text()})
    assert not list(tmp_path.iterdir())


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    output.write({link: ["x"]})
    assert link.is_symlink()
    assert target.read_text() == "x"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    output.write({pipe: ["x"]})
    assert os.read(reader, 10) == b"x"
    os.close(reader)


def test_what_could_not_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder; name a file"):
        output.check([tmp_path])
    with pytest.raises(UsageError, match="there is no folder"):
        output.check([tmp_path / "missing" / "a"])
    with pytest.raises(UsageError, match="is named for two results"):
        output.check([tmp_path / "a", tmp_path / "." / "a"])
    with pytest.raises(UsageError, match="cannot be written: File name too long"):
        output.check([tmp_path / ("a" * 300)])
    output.check([tmp_path / "a", tmp_path / "b"])


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="may not be written to"):
        output.check([tmp_path / "a"])
