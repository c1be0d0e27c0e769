"""What the doctor reports of the profiler's libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.profiler import build
from tiresias.protocol import environment
from tiresias.slurm_plugin.cluster.finding import Level
from tiresias.slurm_plugin.doctor import recorder_check


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(environment.PROFILE_LIBRARIES, str(tmp_path))
    return tmp_path


def test_a_host_without_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    found = recorder_check.finding()
    assert found.level is Level.ADVICE
    assert "traffic is not recorded" in found.words
    assert "lacks make and a C compiler" in found.words
    assert found.remedy


def test_libraries_without_rdma(place: Path) -> None:
    (place / build.NET).touch()
    found = recorder_check.finding()
    assert (found.level, found.words.partition(":")[0]) == (Level.ADVICE, "RDMA is not recorded")


def test_all_libraries(place: Path) -> None:
    for name in (build.NET, build.VERBS):
        (place / name).touch()
    assert recorder_check.finding().level is Level.FINE


def test_a_folder_that_holds_none(place: Path) -> None:
    assert f"{place}: holds no" in recorder_check.finding().words
