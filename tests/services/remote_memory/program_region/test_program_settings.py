"""What the launcher refuses: one line, and the program does not start."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.services.remote_memory.donors import JOB, SERVICE_KEY
from tests.services.remote_memory.program_region.conftest import LAUNCHER, PROGRAMS, ROOT, UNPRIVILEGED, Launch, env
from tiresias.services.remote_memory.job_swap.key_handover import hand_over
from tiresias.services.remote_memory.job_swap.owner_files import FileOwner
from tiresias.services.remote_memory.job_swap.swap_settings import read_swap_settings
from tiresias.services.remote_memory.messages.job_key import job_key
from tiresias.services.remote_memory.region.program_settings import read_program_settings

DONORS = {"donors": ["127.0.0.1:7600"], "job": JOB, "key_file": "/none"}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a size of zero": ({"size_mib": 0}, "size_mib = 0; give a whole number from 1 on"),
    "no size": ({"size_mib": None}, "size_mib is missing"),
    "a size that is no number": ({"size_mib": "8G"}, "size_mib = '8G'; give a whole number from 1 on"),
    "a size beyond the disk": ({"size_mib": 1 << 34}, "MiB free: use less, or another folder"),
    "no memory here": ({"resident_mib": 0}, "resident_mib = 0; give a whole number from 1 on"),
    "another version": ({"version": 2}, "version 2 of the configuration; this release reads 1"),
    "an unknown key": ({"sizes_mib": 8}, "unknown key sizes_mib; allowed: version, size_mib"),
    "small blocks": ({"least_kib": 4}, "least_kib = 4; at least 64 is needed"),
    "a relative folder": ({"disk": "."}, "disk = '.'; give an absolute path"),
    "no folder": ({"disk": "/none"}, "/none: No such file or directory"),
    "donors without a key": ({**DONORS, "key_file": None}, "key_file is missing"),
    "donors without a job": ({**DONORS, "job": None}, "job is missing"),
    "a key that is not there": (DONORS, "/none: "),
    "a name that no job has": ({**DONORS, "job": "a b"}, "no identity of a client"),
    "no list of donors": ({"donors": "node07"}, 'donors is neither "job" nor a list of texts'),
    "the donors of no job": ({"donors": "job"}, "SLURM_JOB_ID is not set"),
}


def refusal(launch: Launch, *program: object, **environment: str) -> str:
    """Return the one line of a launch that does not start its program."""
    started = launch.folder / "started"
    done = launch.attempt(*(program or ("touch", started)), **environment)
    assert done.returncode in {1, 2}, done
    assert not started.exists()
    assert (done.stdout, done.stderr.count("\n")) == ("", 1), done.stderr
    assert done.stderr.startswith("tiresias: ")
    return done.stderr


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_configuration(launch: Launch, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    content, words = REFUSED[case]
    launch.configure(**content)
    assert words in refusal(launch)


def test_a_key_that_others_can_read(launch: Launch) -> None:
    launch.use("127.0.0.1:7600")
    Path(launch.content["key_file"]).chmod(0o640)
    assert "job.key: other users can read or change it" in refusal(launch)


def test_a_configuration_that_others_can_read_or_that_is_none(launch: Launch) -> None:
    launch.file.chmod(0o644)
    assert "region.json: other users can read or change it" in refusal(launch)
    launch.file.chmod(0o600)
    launch.file.write_text("{")
    assert "region.json: no JSON" in refusal(launch)


def test_no_such_program(launch: Launch) -> None:
    assert "no-such-program: no such program" in refusal(launch, "no-such-program")


def test_without_the_library_or_a_compiler(launch: Launch, tmp_path: Path) -> None:
    assert "holds no libtiresias_remem.so" in refusal(launch, TIRESIAS_REMEM_LIBRARIES=str(tmp_path))
    found = refusal(launch, XDG_CACHE_HOME=str(tmp_path), PATH=str(tmp_path))
    assert "the libraries of remote memory are not built, and this host lacks make and a C compiler" in found


def test_a_library_that_cannot_be_preloaded(launch: Launch, native: Path, tmp_path: Path) -> None:
    shutil.copytree(native, tmp_path / "a b")
    found = refusal(launch, TIRESIAS_REMEM_LIBRARIES=str(tmp_path / "a b"))
    assert "LD_PRELOAD takes no path with spaces or colons" in found


def test_a_relative_path_of_python_modules(launch: Launch) -> None:
    launch.run(sys.executable, PROGRAMS / "arrays.py", PYTHONPATH="src:tests")
    assert "pages in" in launch.line


def test_the_job_of_the_node(launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, node = tmp_path / "service.key", tmp_path / "node.json"
    for file in (key, node):
        file.touch(mode=0o600)
    key.write_text(SERVICE_KEY.hex())
    content = {"disk": str(tmp_path), "donors": ["node07:7600"], "service_key_file": str(key), "slab_mib": 32}
    node.write_text(json.dumps(content | {"run": str(tmp_path / "run")}))
    hand_over(read_swap_settings(node), "812", FileOwner(os.getuid(), os.getgid()), "gpu01", requests=True)
    monkeypatch.setenv("SLURM_JOB_ID", "812")
    launch.configure(donors="job", run=str(tmp_path / "run"))
    found = read_program_settings(launch.file).region
    name = f"812.uid{os.getuid()}"
    assert (found.identity.job, found.donors, found.slab_bytes) == (name, ("node07:7600",), 32 << 20)
    assert found.key == job_key(SERVICE_KEY, name)


# The system call fails as under a seccomp filter of a container; loaded by the program itself, so that its children have it, too.
FILTER = """
import ctypes, errno, os, struct, sys
number = {"x86_64": 323, "aarch64": 282}[os.uname().machine]
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | errno.EPERM), (0x06, 0, 0, 0x7FFF0000)]
code = b"".join(struct.pack("HBBI", *rule) for rule in rules)
buffer = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"""


def filtered(launch: Launch) -> None:
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap hides /dev/userfaultfd")
    launch.before = (*UNPRIVILEGED, sys.executable, "-c", FILTER)


def test_a_seccomp_filter_without_userfaultfd(launch: Launch) -> None:
    filtered(launch)
    assert "userfaultfd: Operation not permitted: let users read /dev/userfaultfd" in refusal(launch)


def test_a_program_in_which_userfaultfd_fails_later_runs_without(launch: Launch) -> None:
    filtered(launch)
    within, launch.before = launch.before, ()
    done = launch.attempt(*within, sys.executable, PROGRAMS / "arrays.py")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 2
    assert re.search(
        r"userfaultfd: let users read .*: Operation not permitted; it goes on without a region", done.stderr
    )


def test_the_ability_of_this_user(launch: Launch) -> None:
    words = [*LAUNCHER[:-1], "node"]
    filtered(launch)
    for before, expected in (((), "can have a region"), (launch.before, "cannot have a region")):
        done = subprocess.run(
            [*before, *words], capture_output=True, text=True, cwd=ROOT, env=env(), timeout=60, check=True
        )
        assert done.stdout.startswith(f"this user's programs {expected}")
        assert done.stdout.count("\n") == 1
