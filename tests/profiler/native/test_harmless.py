"""Programs under the recorder do what they do without it, in whatever state their surroundings are."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.profiler.native.conftest import Compile, Stage

SEND_AND_COUNT = """
import os, socket, sys
a, b = socket.create_server(("127.0.0.1", 0)), socket.socket()
b.connect(a.getsockname()); b.sendall(b"x" * 10)
print("sent", len(os.listdir("/proc/self/fd")))
"""


def same_with_and_without(stage: Stage, *command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    alone = stage.attempt(*command, LD_PRELOAD="")
    under = stage.attempt(*command, **environment)
    assert (under.returncode, under.stdout, under.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    return under


@pytest.mark.parametrize(
    "command", [["true"], ["ls", "/"], ["false"], ["sh", "-c", "echo x | cat; exit 3"], ["ls", "/proc/nowhere"]]
)
def test_plain_programs(stage: Stage, command: list[str]) -> None:
    same_with_and_without(stage, *command)
    assert not list(stage.folder.iterdir()), "no connection, no file"


def test_static_programs(stage: Stage, compiled: Compile) -> None:
    same_with_and_without(stage, compiled("processes", "-static"), "fork")
    assert not list(stage.folder.iterdir())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a program of another user's")
def test_setuid_programs(stage: Stage, compiled: Compile) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        place = Path(name)
        place.chmod(0o777)  # the other user could record there
        program = place / "program"
        shutil.copy(compiled("processes"), program)
        os.chown(program, 65534, 65534)
        program.chmod(0o4755)
        same_with_and_without(stage, program, "fork", TIRESIAS_PROFILE_DIR=name)
        assert [file.name for file in place.iterdir()] == ["program"]
        program.chmod(0o755)
        same_with_and_without(stage, program, "fork", TIRESIAS_PROFILE_DIR=name)
        assert len(list(place.glob("*.net"))) == 2, "the same program without that bit"


def count(stage: Stage, **environment: str) -> int:
    """Sends under the recorder; how many files that made."""
    same_with_and_without(stage, sys.executable, "-c", SEND_AND_COUNT, **environment)
    return len(list(stage.folder.glob("*.net")))


def test_a_program_that_sends_has_no_descriptor_more(stage: Stage) -> None:
    assert count(stage) == 1


@pytest.mark.parametrize(
    "environment",
    [
        {"TIRESIAS_PROFILE": "0"},
        {"TIRESIAS_PROFILE_DIR": ""},
        {"TIRESIAS_PROFILE_DIR": "relative"},
        {"TIRESIAS_PROFILE_DIR": "/proc/nowhere/at/all"},
        {"TIRESIAS_PROFILE_DIR": "/dev/null"},
        {"TIRESIAS_PROFILE_DIR": "/" + "x" * 5000},
        {"TIRESIAS_PROFILE_BYTES": "0"},
        {"TIRESIAS_PROFILE_BYTES": "many"},
        {"TIRESIAS_PROFILE_BYTES": "8191"},
    ],
    ids=lambda each: "=".join(*each.items())[:40],
)
def test_nothing_is_recorded_and_nothing_is_printed(stage: Stage, environment: dict[str, str]) -> None:
    assert count(stage, **environment) == 0


def test_a_size_beyond_all_bounds_is_cut(stage: Stage) -> None:
    assert count(stage, TIRESIAS_PROFILE_BYTES=str(1 << 62)) == 1
    (file,) = stage.folder.iterdir()
    assert file.stat().st_size == 64 << 20


def test_a_limit_on_the_size_of_files(stage: Stage, compiled: Compile) -> None:
    """Beyond it there is SIGXFSZ, which ends a program."""
    same_with_and_without(stage, "sh", "-c", f"ulimit -f 100; exec {compiled('processes')} many 10")
    assert not list(stage.folder.iterdir())


def test_a_limit_on_memory(stage: Stage) -> None:
    """What this Python has now, and little more."""
    limit = resource.getpagesize() * int(Path("/proc/self/statm").read_text().split()[0]) + (64 << 20)
    setup = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))\n"
    assert same_with_and_without(stage, sys.executable, "-c", setup + SEND_AND_COUNT).stdout.startswith("sent")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small file system")
def test_a_full_disk(stage: Stage) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", stage.folder], capture_output=True, timeout=20
    )
    if mounted.returncode:
        pytest.skip("mounts are not allowed here")
    try:
        assert count(stage) == 0
        assert not list(stage.folder.iterdir()), "what did not fit was removed"
    finally:
        subprocess.run(["umount", stage.folder], check=True, timeout=20)


def test_a_name_in_use_is_left_alone(stage: Stage) -> None:
    """A link of the expected name must not be followed."""
    program = """
import os, sys
ticks = open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]
victim = sys.argv[1] + "/victim"
open(victim, "w").close()
os.symlink(victim, f"{sys.argv[1]}/{os.uname().nodename}.{os.getpid()}.{ticks}.net")
"""
    stage.run(sys.executable, "-c", program + SEND_AND_COUNT, stage.folder)
    assert (stage.folder / "victim").read_bytes() == b""
    assert [file.name.split(".")[-2] for file in stage.folder.glob("*.net") if not file.is_symlink()] == ["1"]
