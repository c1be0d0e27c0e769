"""The recorder itself, under sanitizers: many threads, rings that change hands, a full table, a full file, a child."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.profiler.native.conftest import Compile, Stage
from tiresias.profiler import build

PARTS = tuple(build.SOURCE / f"{name}.c" for name in ("recorder", "session", "clock", "system"))
SANITIZERS = ["address,undefined", "thread"]


@pytest.fixture(params=SANITIZERS)
def program(compiled: Compile, request: pytest.FixtureRequest) -> Path:
    options = (f"-fsanitize={request.param}", "-fno-sanitize-recover=all", "-D_GNU_SOURCE", f"-I{build.SOURCE}", "-g")
    return compiled("recorder", *options, sources=PARTS)


def run(stage: Stage, program: Path, *arguments: int, **environment: str) -> None:
    done = stage.run(program, *arguments, LD_PRELOAD="", **environment)
    assert not done.stderr


@pytest.mark.skipif(os.environ.get("LD_PRELOAD", "") != "", reason="sanitizers must be the first library")
@pytest.mark.parametrize(("threads", "records", "lives"), [(16, 3000, 3), (3, 1, 200), (1, 20_000, 1)])
def test_every_record_is_there_once(stage: Stage, program: Path, threads: int, records: int, lives: int) -> None:
    run(stage, program, threads, records, lives)
    parent, child = stage.recordings()
    assert parent.dropped == child.dropped == 0
    assert sorted(parent.records["asked"].tolist()) == list(range(threads * records * lives))
    assert sorted(child.records["asked"].tolist()) == list(range(records))
    assert len(parent.channels) == 2 * threads * lives
    assert sum(parent.channels["closed"] != 0) == threads * lives


def test_a_full_file_and_a_full_table(stage: Stage, program: Path) -> None:
    run(stage, program, 16, 3000, 2, TIRESIAS_PROFILE_BYTES=str(256 << 10))
    parent, child = stage.recordings()
    assert len(parent.channels) == 64, "exactly as many as fit"
    assert len(parent.records) == 7 * 1024
    assert parent.dropped == 16 * 3000 * 2 - 7 * 1024
    assert child.dropped == 0
