"""What `tsbatch --checkpoint=dmtcp` and `=criu` refuse, and the parts of an image that need neither tool."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiresias.checkpoint import Store
from tiresias.errors import CorruptCheckpoint, UsageError
from tiresias.wrappers.images import image_place, image_store, option, program_files, written_files
from tiresias.wrappers.images.image_store import ImageNote

DMTCP = {"TIRESIAS_CHECKPOINT": "dmtcp"}


@pytest.mark.parametrize(
    ("asked", "script", "words"),
    [
        ({"nodes": "2"}, b"#!/bin/sh\n./program\n", "the job requests 2: use --nodes=1"),
        ({"N": "1-4"}, b"#!/bin/sh\n./program\n", "the job requests 1-4"),
        ({}, b"#!/bin/sh\nsrun ./program\n", "cannot dump what srun starts"),
        ({}, b"#!/bin/sh\ncd x && mpirun -n 2 ./program\n", "cannot dump what mpirun starts"),
    ],
)
def test_what_an_image_cannot_hold_is_refused(asked: dict[str, str], script: bytes, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        option.check_request(DMTCP, asked, script)
    option.check_request({}, asked, script)


def test_a_program_on_one_node_is_accepted() -> None:
    option.check_request(DMTCP, {"N": "1"}, b"#!/bin/sh\n# srun is not used\n./program | tee log\n")


@pytest.mark.parametrize("name", option.TOOLS)
def test_each_tool_has_its_module(name: str) -> None:
    assert name == image_place.kind(name).TOOL


@pytest.mark.skipif(not Path("/usr/bin/readelf").exists(), reason="readelf is not installed")
def test_a_library_has_its_build_id() -> None:
    shown = subprocess.run(["readelf", "-n", sys.executable], capture_output=True, text=True, check=True).stdout
    number = shown.partition("Build ID: ")[2].split()[0]
    assert program_files.identity(Path(sys.executable), whole=False) == f"build-id:{number}"
    assert program_files.identity(Path(sys.executable), whole=True).startswith("sha256:")


def test_a_changed_or_missing_file_is_named(tmp_path: Path) -> None:
    program, gone = tmp_path / "program", tmp_path / "gone"
    for path in (program, gone):
        path.write_bytes(b"\x7fELF and so on")
    noted = program_files.identities({str(program), str(gone)}, set())
    assert program_files.changed(noted) == ""
    gone.unlink()
    assert program_files.changed(noted) == f"{gone}: No such file or directory"
    gone.write_bytes(b"\x7fELF and so on")
    program.write_bytes(b"\x7fELF and so forth")
    assert program_files.changed(noted) == f"{program} has changed since"


def test_an_image_comes_out_of_the_store_as_it_went_in(tmp_path: Path) -> None:
    images, restored, store = tmp_path / "images", tmp_path / "restored", Store(tmp_path / "store")
    (images / "one_files").mkdir(parents=True)
    restored.mkdir()
    contents = {"one.dmtcp": b"memory" * 999_999, "one_files/deleted": b"", "two.dmtcp": b"x"}
    for name, content in contents.items():
        (images / name).write_bytes(content)
    note = ImageNote({"/bin/sh": "sha256:0"}, ["avx2"], str(images), "criu", {"/shared/trace": 77})
    store.save(1, image_store.state_of(images, note))
    found = store.load(1)
    assert image_store.note_of(found.state) == note
    image_store.write(found.state, restored)
    assert {name: (restored / name).read_bytes() for name in contents} == contents
    assert {(restored / name).stat().st_mode & 0o077 for name in contents} == {0}


def test_files_are_cut_to_their_length_at_the_dump(tmp_path: Path) -> None:
    written, log, read = (tmp_path / name for name in ("written", "log", "read"))
    read.write_text("input")
    with written.open("w") as file, log.open("a") as appended, read.open():
        for each in (file, appended):
            each.write("at the dump\n")
            each.flush()
        lengths = written_files.sizes([os.getpid()])
    assert {path: size for path, size in lengths.items() if path.startswith(str(tmp_path))} == {str(written): 12}
    written.write_text("at the dump\nafter it\n")
    written_files.cut({str(written): 12, str(tmp_path / "gone"): 3, str(read): 50})
    assert written.read_text() == "at the dump\n"
    assert read.read_text() == "input"


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "", "a/../../b"])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CorruptCheckpoint, match="is no name of an image's file"):
        image_store.write({"image": {"files": {name: 0o600}}}, tmp_path)


def test_a_checkpoint_of_another_kind_is_refused() -> None:
    with pytest.raises(CorruptCheckpoint, match="it is no image of a program"):
        image_store.note_of({"model": b""})
