"""The profiler plugin of NCCL, loaded and called as each version of NCCL does, by a program that plays NCCL."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.profiler.native.conftest import Compile, Stage
from tiresias.profiler import build
from tiresias.profiler.analysis import analyze
from tiresias.profiler.recordings import layout
from tiresias.profiler.recordings.recording import Recording

HASH, RANK, RANKS = 0xFEDCBA9876543210, 1, 4
VERSIONS = [1, 2, 3, 4, 5, 6]
PARTS = tuple(build.SOURCE / name for name in (
    "recorder.c", "session.c", "clock.c", "system.c", "nccl/plugin.c", "nccl/communicator.c", "nccl/words.c"
))  # fmt: skip
TYPES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)  # bytes, by NCCL's number

Play = Callable[..., Recording]


@pytest.fixture
def play(stage: Stage, compiled: Compile) -> Play:
    """play(version, call, ...): what the plugin recorded."""

    def run(version: int, *calls: str, iterations: int = 1, **environment: str) -> Recording:
        arguments = (build.libraries().nccl, version, hex(HASH), RANK, RANKS, 0, iterations, *calls)
        done = stage.run(compiled("nccl"), *arguments, **{"LD_PRELOAD": "", **environment})
        assert done.stdout == "0\n", "handles of no use would cost NCCL work"
        assert not done.stderr
        return stage.only()

    return run


def made(recording: Recording) -> list[tuple[int, int, int, int]]:
    """(operation, function, other rank, bytes) of each record."""
    ends = recording.channels["remote"][recording.records["channel"]]
    assert not recording.records["flags"].any()
    assert not recording.records["done"].any()
    return list(
        zip(
            recording.records["operation"].tolist(),
            ends["port"].tolist(),
            ends["qp"].tolist(),
            recording.records["asked"].tolist(),
            strict=True,
        )
    )


def collective(function: int, size: int) -> tuple[int, int, int, int]:
    return layout.COLLECT, function, layout.ALL_RANKS, size


@pytest.mark.parametrize("version", VERSIONS)
def test_a_training_with_data_parallelism(play: Play, version: int) -> None:
    """Parameters are spread once; then buckets, last layers first, and a byte-sized flag."""
    buckets = [6_553_600, 7_000_001, 3]
    calls = ["once:bc:0:54214416", *(f"ar:7:{bucket}" for bucket in buckets), "ar:1:1"]
    recording = play(version, *calls, iterations=500)
    iteration = [collective(layout.ALL_REDUCE, size) for size in (*(4 * each for each in buckets), 1)]
    assert made(recording) == [collective(layout.BROADCAST, 54214416), *500 * iteration]
    assert recording.dropped == 0
    assert (recording.channels["closed"] != 0).all(), "the communicator is no more"


@pytest.mark.parametrize("version", [1, 6])
def test_the_analysis_finds_the_model(stage: Stage, compiled: Compile, version: int) -> None:
    """Of four ranks, each a process."""
    buckets = [6_553_600, 7_000_001, 1000]
    calls = ["once:bc:0:54214416", *(f"ar:7:{bucket}" for bucket in buckets)]
    arguments = [(build.libraries().nccl, version, hex(HASH), rank, RANKS, 20, 30, *calls) for rank in range(RANKS)]
    program = compiled("nccl")
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda each: stage.run(program, *each, LD_PRELOAD=""), arguments))
    profile = analyze(stage.recordings(), bandwidth=1e9)
    assert (profile.shape.kind, profile.shape.workers, profile.iterations) == ("collective all-reduce", RANKS, 30)
    assert profile.shape.model == 4 * sum(buckets)
    assert profile.share == max(buckets) / sum(buckets)
    assert profile.intensity == pytest.approx(1.5 * 4 * sum(buckets) / 1e9 / profile.compute)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_functions_and_peers(play: Play, version: int) -> None:
    calls = ("ag:0:7", "rs:6:7", "bc:0:7", "rd:8:7", "xx:7:7", "send:9:7:2", "recv:2:7:0", "send:7:7:0")
    assert made(play(version, *calls)) == [
        collective(layout.ALL_GATHER, 7),
        collective(layout.REDUCE_SCATTER, 14),
        collective(layout.BROADCAST, 7),
        collective(layout.REDUCE, 56),
        collective(layout.OTHER, 28),
        (layout.SEND, layout.POINT_TO_POINT, 2, 14),
        (layout.RECV, layout.POINT_TO_POINT, 0, 28),
        (layout.SEND, layout.POINT_TO_POINT, 0, 28),
    ]


@pytest.mark.parametrize("version", [1, 2, 6])
def test_data_types(play: Play, version: int) -> None:
    recording = play(version, *(f"ar:{number}:1000" for number in range(len(TYPES))))
    assert recording.records["asked"].tolist() == [1000 * each for each in TYPES]


@pytest.mark.parametrize("version", VERSIONS)
def test_channels_name_the_communicator(play: Play, version: int) -> None:
    recording = play(version, "ar:7:1", "send:7:1:3", iterations=3)
    assert recording.channels["kind"].tolist() == [layout.COLLECTIVE] * 2
    for end in ("local", "remote"):
        ends = recording.channels[end]
        assert ends["family"].tolist() == [layout.COMMUNICATOR] * 2
        group = ends["address"].view(layout.GROUP)
        assert group["hash"].tolist() == [HASH] * 2
        known = (RANKS, RANKS) if version >= 4 else (0, 0)
        assert [(int(each["ranks"]), int(each["nodes"])) for each in group] == [known] * 2
    assert recording.channels["local"]["qp"].tolist() == [RANK] * 2
    assert recording.channels["local"]["port"].tolist() == [0] * 2


def test_sends_to_oneself_and_without_a_peer_are_left_out(play: Play) -> None:
    assert len(play(6, "ar:7:1", f"send:7:1:{RANK}", "send:7:1:4", "send:7:1:-1").records) == 1


def test_a_process_has_one_file(play: Play, net: Path) -> None:
    """Also where the preloaded library has a recorder, too."""
    assert len(play(6, "ar:7:1", LD_PRELOAD=str(net)).records) == 1


def test_a_child_has_a_file_of_its_own(stage: Stage, compiled: Compile) -> None:
    arguments = (build.libraries().nccl, 6, hex(HASH), RANK, RANKS, 0, 2, "send:7:7:2", "ar:7:1", "ag:7:2")
    stage.run(compiled("nccl"), *arguments, LD_PRELOAD="", FORK="1")
    parent, child = stage.recordings()
    iteration = [
        (layout.SEND, layout.POINT_TO_POINT, 2, 28),
        collective(layout.ALL_REDUCE, 4),
        collective(layout.ALL_GATHER, 8),
    ]
    assert made(parent) == 3 * iteration
    assert made(child) == iteration
    assert ((parent.channels["closed"] != 0).all(), (child.channels["closed"] != 0).any()) == (True, False)


@pytest.mark.parametrize("switch", [{"TIRESIAS_PROFILE": "0"}, {"TIRESIAS_PROFILE_DIR": "/proc/nowhere"}])
def test_nothing_is_recorded_where_that_is_off(stage: Stage, compiled: Compile, switch: dict[str, str]) -> None:
    arguments = (build.libraries().nccl, 6, hex(HASH), 0, 2, 0, 3, "ar:7:1")
    done = stage.run(compiled("nccl"), *arguments, LD_PRELOAD="", **switch)
    assert (done.stdout, done.stderr, list(stage.folder.iterdir())) == ("0\n", "", [])


def test_it_needs_the_c_library_only(net: Path) -> None:
    listed = subprocess.run(["ldd", build.libraries().nccl], capture_output=True, text=True, timeout=60).stdout
    assert {line.split()[0].rsplit("/")[-1].split(".")[0] for line in listed.splitlines()} <= {
        "linux-vdso",
        "libc",
        "libpthread",
        "ld-linux-x86-64",
        "ld-linux-aarch64",
    }


@pytest.mark.skipif(os.environ.get("LD_PRELOAD", "") != "", reason="sanitizers must be the first library")
@pytest.mark.parametrize("version", VERSIONS)
def test_under_sanitizers(stage: Stage, compiled: Compile, version: int) -> None:
    """The plugin is in the program, as NCCL allows it; a communicator that is not given back is a leak."""
    options = (
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-D_GNU_SOURCE",
        "-g",
        "-rdynamic",
        f"-I{build.SOURCE}",
    )
    program = compiled("nccl", *options, sources=PARTS)
    calls = ("once:bc:0:9", "ar:7:1000", "send:7:5:0", "recv:7:5:3", "xx:7:1")
    done = stage.run(program, "STATIC_PLUGIN", version, hex(HASH), RANK, RANKS, 0, 300, *calls, LD_PRELOAD="")
    assert not done.stderr
    assert len(stage.only().records) == 1 + 4 * 300


def test_layouts_are_nvidia_s(compiled: Compile) -> None:
    """Of the plugin and of what plays NCCL. Both were written by hand."""
    source = os.environ.get("NCCL_SOURCE")
    if not source or not shutil.which("cc"):
        pytest.skip("NVIDIA's headers are not here: set NCCL_SOURCE to a checkout of NCCL 2.29 or later")
    headers = Path(source) / "plugins/profiler/example/nccl"
    compiled("nccl_headers", f"-I{headers}", f"-I{build.SOURCE}")
