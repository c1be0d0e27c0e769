"""The libraries are built at first use, once, also for concurrent callers; where that fails, one line gives the reason."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tiresias.errors import TiresiasError
from tiresias.profiler import build
from tiresias.protocol import environment

VERBS = Path("/usr/include/infiniband")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CFLAGS", "-O0")  # a third of the time
    return tmp_path / "tiresias" / "native"


def test_two_builds_at_a_time(net: Path, cache: Path) -> None:
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: build.libraries(), range(2))
    assert first == second
    assert first.net.exists()
    assert [entry.name for entry in cache.iterdir()] == [first.net.parent.name], "nothing half-made stays"


def test_what_is_built_is_not_built_again(net: Path) -> None:
    before = build.libraries().net.stat()
    assert build.libraries().net.stat() == before


LACKS = {
    "make and a compiler": (("make", "cc"), r"lacks make and a C compiler \(cc\): install"),
    "make": (("make",), "lacks make: install"),
    "a compiler": (("cc",), r"lacks a C compiler \(cc\): install"),
}


@pytest.mark.parametrize("case", LACKS)
def test_without_the_tools(case: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing, words = LACKS[case]
    for tool in {"make", "cc"} - {*missing}:
        (tmp_path / tool).symlink_to(shutil.which(tool) or "/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert re.search(words, build.problem())
    with pytest.raises(TiresiasError, match=words):
        build.libraries()
    assert not cache.exists(), "looking builds nothing"


def test_a_compiler_without_the_c_librarys_headers(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    monkeypatch.setenv("CC", "cc -nostdinc")
    assert "lacks the C library's headers (Debian: libc6-dev)" in build.problem()


def test_what_can_be_built_is_no_problem(net: Path, cache: Path) -> None:
    assert build.problem() == ""
    assert not cache.exists()


def test_a_named_folder_without_libraries_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(environment.PROFILE_LIBRARIES, str(tmp_path))
    assert build.problem().startswith(f"{tmp_path}: holds no {build.NET}")


@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap hides the headers")
def test_without_the_headers_of_rdma_core(net: Path, tmp_path: Path) -> None:
    hidden = ["--tmpfs", str(VERBS)] if VERBS.exists() else []
    words = ["bwrap", "--dev-bind", "/", "/", *hidden, "make", "-B", "-C", str(build.SOURCE), f"OUT={tmp_path}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert {file.name for file in tmp_path.iterdir()} == {build.NET, build.NCCL}


@pytest.mark.skipif(not VERBS.exists(), reason="rdma-core's headers are not here (Debian: libibverbs-dev)")
def test_with_the_headers_of_rdma_core(net: Path) -> None:
    assert build.libraries().verbs is not None
    assert build.records_rdma()


def test_source_that_does_not_compile(net: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
