"""The libraries are built at first use, once, whoever asks at the same time; where they cannot be, one line says why."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tiresias.errors import TiresiasError
from tiresias.profiler import build


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tiresias" / "native"


def test_two_builds_at_a_time(net, cache: Path) -> None:
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: build.libraries(), range(2))
    assert first == second
    assert first.net.exists()
    assert [entry.name for entry in cache.iterdir()] == [first.net.parent.name], "nothing half-made stays"


def test_what_is_built_is_not_built_again(net) -> None:
    before = build.libraries().net.stat()
    assert build.libraries().net.stat() == before


def test_without_a_compiler(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TiresiasError, match="make and cc is missing: install it"):
        build.libraries()


def test_source_that_does_not_compile(net, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "native"
    shutil.copytree(build.SOURCE, source)
    (source / "clock.c").write_text("this is not C\n")
    monkeypatch.setattr(build, "SOURCE", source)
    with pytest.raises(TiresiasError, match=r"failed: clock\.c:1"):
        build.libraries()
    assert not [entry for entry in cache.iterdir() if not entry.name.startswith(".")]


def test_an_installed_library_is_taken_as_it_is(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / build.NET).touch()
    monkeypatch.setattr(build, "SOURCE", tmp_path)
    assert build.libraries() == (tmp_path / build.NET, tmp_path / build.NCCL, None)


def test_it_needs_the_standard_library_only() -> None:
    code = "import sys; import tiresias.profiler.build; assert not {'numpy', 'rich', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
