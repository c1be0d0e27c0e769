"""What is posted to queue pairs, by programs that are linked with libibverbs and by programs that look its functions up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.profiler.native.conftest import Compile, Rows, Stage
from tiresias.profiler import build
from tiresias.profiler.recordings import layout
from tiresias.profiler.recordings.recording import Recording

POSTED = "26\n"  # what reached the provider, of all that the program tried
PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def verbs(net: Path) -> Path:
    found = build.libraries().verbs
    if found is None:
        pytest.skip("no libtiresias_verbs.so: it needs rdma-core's headers (Debian: libibverbs-dev)")
    return found


@pytest.fixture
def fake(compiled: Compile, verbs: Path) -> Path:
    """The folder of a libibverbs.so.1 that needs no hardware."""
    script = f"-Wl,--version-script={PROGRAMS / 'fake_ibverbs.map'}"
    made = compiled("fake_ibverbs", "-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1", script)
    library = made.parent / "libibverbs.so.1"
    if not library.exists():
        library.symlink_to(made)
    return made.parent


@pytest.fixture
def linked(compiled: Compile, fake: Path) -> Path:
    return compiled("verbs", str(fake / "libibverbs.so.1"), f"-Wl,-rpath,{fake}")


def check(
    stage: Stage, rows: Callable[[Recording], Rows], expected: Callable[[str], Rows], program: Path, **environment: str
) -> None:
    done = stage.run(program, **environment)
    assert done.stderr == POSTED, "everything still reaches the provider"
    recording = stage.only()
    assert rows(recording) == expected(done.stdout)
    assert recording.channels["kind"].tolist() == [layout.QUEUE_PAIR] * 6
    for channel, peer in zip(recording.channels, (501, 502, 501, 503, 504, 505), strict=True):
        local, remote = channel["local"], channel["remote"]
        assert (int(local["family"]), int(local["qp"]), int(local["lid"])) == (0x4942, int(channel["number"]), 7)
        assert (int(remote["qp"]), int(remote["lid"])) == (peer, 9)
        assert (local["address"].tobytes(), remote["address"].tobytes()) == (b"\4" * 16, b"\xee" * 16)
    assert (recording.channels["closed"] != 0).tolist() == [True, False, True, True, False, False]


def test_a_linked_program(
    stage: Stage, linked: Path, rows: Callable[[Recording], Rows], expected: Callable[[str], Rows]
) -> None:
    check(stage, rows, expected, linked)


@pytest.mark.parametrize("kind", ["ud", "driver"])
def test_datagrams_to_several_peers(stage: Stage, compiled: Compile, fake: Path, kind: str) -> None:
    program = compiled("datagrams", str(fake / "libibverbs.so.1"), f"-Wl,-rpath,{fake}")
    done = stage.run(program, kind)
    recording = stage.only()
    found = [(record, recording.channels["remote"][record["channel"]]) for record in recording.records]
    assert done.stdout.splitlines() == [
        " ".join(str(int(each)) for each in (
            record["operation"], record["flags"], record["asked"], record["done"], peer["address"].tobytes()[0], peer["qp"],
        ))
        for record, peer in found
    ]  # fmt: skip
    assert recording.channels["kind"].tolist() == [layout.DATAGRAM] * 4
    assert len({int(number) for number in recording.channels["number"]}) == 1


@pytest.mark.parametrize("name", ["libibverbs.so.1", "{folder}/libibverbs.so.1"])
def test_a_program_that_looks_the_functions_up(
    stage: Stage,
    compiled: Compile,
    fake: Path,
    rows: Callable[[Recording], Rows],
    expected: Callable[[str], Rows],
    name: str,
) -> None:
    program = compiled("verbs", f'-DLOOK_UP="{name.format(folder=fake)}"')
    check(stage, rows, expected, program, LD_LIBRARY_PATH=str(fake))


def test_a_program_that_is_given_the_library_by_name(
    stage: Stage,
    compiled: Compile,
    fake: Path,
    verbs: Path,
    rows: Callable[[Recording], Rows],
    expected: Callable[[str], Rows],
) -> None:
    """As NCCL_IBVERBS_LIB does, without anything preloaded."""
    program = compiled("verbs", f'-DLOOK_UP="{verbs}"')
    check(stage, rows, expected, program, LD_LIBRARY_PATH=str(fake), LD_PRELOAD="")


def test_nothing_is_redirected_when_it_is_switched_off(stage: Stage, compiled: Compile, fake: Path) -> None:
    program = compiled("verbs", '-DLOOK_UP="libibverbs.so.1"')
    done = stage.run(program, LD_LIBRARY_PATH=str(fake), TIRESIAS_PROFILE="0")
    assert done.stderr == POSTED
    assert not list(stage.folder.iterdir())


def test_a_library_that_only_its_caller_can_find(
    stage: Stage, compiled: Compile, fake: Path, rows: Callable[[Recording], Rows], expected: Callable[[str], Rows]
) -> None:
    """dlopen searches the RUNPATH of its caller."""
    program = compiled("verbs", '-DLOOK_UP="libibverbs.so.1"', f"-Wl,--enable-new-dtags,-rpath,{fake}")
    check(stage, rows, expected, program)


def test_other_libraries_are_found_as_ever(stage: Stage, compiled: Compile, fake: Path, tmp_path: Path) -> None:
    (tmp_path / "libother.so").symlink_to(fake / "libibverbs.so.1")
    program = compiled("verbs", '-DLOOK_UP="libother.so"', f"-Wl,--enable-new-dtags,-rpath,{tmp_path}")
    assert stage.run(program).stderr == POSTED
    assert not list(stage.folder.iterdir())


@pytest.mark.skipif(os.environ.get("LD_PRELOAD", "") != "", reason="sanitizers must be the first library")
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
@pytest.mark.parametrize(("threads", "keys"), [(8, 256), (1, 2048)])
def test_a_table_that_many_threads_use(compiled: Compile, sanitizer: str, threads: int, keys: int) -> None:
    options = (f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", f"-I{build.SOURCE}", "-g")
    program = compiled("handles", *options, sources=(build.SOURCE / "handles.c",))
    done = subprocess.run([program, str(threads), str(keys), "500"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
