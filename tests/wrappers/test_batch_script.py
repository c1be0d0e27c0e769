"""The generated batch script, against golden files and as sbatch would read it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.protocol.batch_script_statements import MARKER
from tiresias.wrappers import batch_script, inserted, user_script

GOLDEN = Path(__file__).parent / "golden"
SETTINGS = {"TIRESIAS_CONTROL_ROOT": "/shared/control", "TIRESIAS_CHECKPOINT_ROOT": "/shared/it's $HOME"}


def compose(script: bytes, own_options: bool = True) -> bytes:
    return batch_script.compose(script, "/opt/my python/bin/python3", "/opt/tiresias/src", SETTINGS, own_options)


def test_golden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", None)
    assert compose((GOLDEN / "bash.in").read_bytes()).decode() == (GOLDEN / "bash.out").read_text()


def test_the_command_of_wrap_is_no_option() -> None:
    script = batch_script.WRAPPED.format("#SBATCH --hold").encode()
    assert compose(script, own_options=False).partition(MARKER)[0].count(b"#SBATCH") == len(batch_script.DEFAULTS)


@given(
    st.lists(
        st.sampled_from([b"#SBATCH -N 2", b"", b" ", b"# x", b"\t#y", b"true", b"#SBATCH --hold", b"\xff\0", b"echo '"])
    )
)
def test_options_are_those_that_sbatch_would_read(lines: list[bytes]) -> None:
    """sbatch reads #SBATCH lines up to the first line that is neither blank nor a comment."""
    script = b"\n".join([b"#!/bin/sh", *lines])
    assert directives(compose(script)) == [b"#SBATCH --requeue", b"#SBATCH --open-mode=append", *directives(script)]


def directives(script: bytes) -> list[bytes]:
    found = []
    for line in script.split(b"\n"):
        if line.strip() and not line.strip().startswith(b"#"):
            break
        found += [line] if line.startswith(b"#SBATCH") else []
    return found


@given(st.binary())
def test_the_script_is_unchanged(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    folder = tmp_path_factory.mktemp("script")
    script = b"#!/bin/sh -e\n" + text
    (folder / "batch").write_bytes(compose(script))
    found = user_script.extract(folder / "batch", folder)
    path = Path(found.command[-1])
    assert path.read_bytes() == script
    assert path.stat().st_mode & 0o777 == 0o700
    assert found.command[:-1] == ["/bin/sh", "-e"]
    found.remove()
    assert [path.name for path in folder.iterdir()] == ["batch"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"#!/bin/bash", ["/bin/bash"]),
        (b"#! /usr/bin/env  python3 -u \r", ["/usr/bin/env", "python3 -u"]),
        (b"#!\t/bin/sh\t-x -e", ["/bin/sh", "-x -e"]),
    ],
)
def test_the_interpreter_line_is_split_as_the_kernel_does(line: bytes, words: list[str]) -> None:
    assert user_script.interpreter(line + b"\nrest") == words


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (b"echo hello\n", "does not begin with #!"),
        (b"", "does not begin with #!"),
        (b"#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n2\ntrue\n", "heterogeneous"),
        (b"#!/bin/sh\n#SBATCH packjob\n", "heterogeneous"),
    ],
)
def test_what_is_not_for_us(script: bytes, why: str) -> None:
    assert why in batch_script.why_not(script)


def test_a_script_is_wrapped_once() -> None:
    assert "comes from tsbatch already" in batch_script.why_not(compose(b"#!/bin/sh\ntrue\n"))
    assert batch_script.why_not(b"#!/bin/sh\ntrue\n#SBATCH hetjob\n") == "", "that line is no option"


def test_the_supervisor_finds_the_modules_that_the_submitters_python_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", "/run/my modules")
    lines = (compose(b"#!/bin/sh\ntrue\n"), inserted.text("/usr/bin/python3", "/opt/tiresias/src", {}))
    for text in lines:
        assert b" -I -S -X 'pycache_prefix=/run/my modules' -c " in text
    monkeypatch.setattr(sys, "pycache_prefix", None)
    assert b" -I -S -c " in inserted.text("/usr/bin/python3", "/opt/tiresias/src", {})
