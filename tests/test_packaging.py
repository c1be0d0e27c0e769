"""The distribution: an sdist that builds the same wheel as the checkout, with every file of every folder in it and no other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.checkout import SOURCE_FOLDERS, without_git
from tests.installed import build

ROOT = Path(__file__).resolve().parents[1]
# what admins copy, and what the private cluster of an installed wheel needs
SHARED = ("etc", "docs/examples")
NOT_SHARED = ("etc/deb/", "etc/rpm/", "etc/packages/", "etc/modulefiles/")


def names(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def expected() -> set[str]:
    """The namespace's own files, and the files of the folders that git tracks, or would."""
    own = {path.name for path in (ROOT / "src/tiresias").iterdir() if path.is_file() and not path.is_symlink()}
    shared = {f"share/{name}" for name in known_to_git(SHARED) if not name.startswith(NOT_SHARED)}
    return {f"tiresias/{name}" for name in own | known_to_git(SOURCE_FOLDERS) | shared}


def known_to_git(folders: tuple[str, ...]) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "--", *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    return {name for name in listed if name and (ROOT / name).exists()}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(built from the checkout, built from its sdist)"""
    base = tmp_path_factory.mktemp("dist")
    source_only = {"TIRESIAS_NATIVE": "0"}
    shutil.unpack_archive(build("sdist", ROOT, base / "sdist"), base / "unpacked")
    (unpacked,) = (base / "unpacked").iterdir()
    return build("wheel", ROOT, base / "direct", **source_only), build(
        "wheel", unpacked, base / "through", **source_only
    )


def test_sdist_and_checkout_give_the_same_wheel(wheels: tuple[Path, Path]) -> None:
    direct, through_sdist = wheels
    assert names(direct) == names(through_sdist)


@pytest.mark.skipif(bool(without_git()), reason=without_git())
def test_wheel_has_every_file_and_no_other(wheels: tuple[Path, Path]) -> None:
    assert names(wheels[0]) == expected()


def test_the_wheel_runs_without_the_checkout(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    zipfile.ZipFile(wheels[1]).extractall(tmp_path)
    environment = {"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-S", "-c", "import tiresias; print(tiresias.__file__, tiresias.__version__)"]
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith(str(tmp_path)), done.stderr


NATIVE = "tiresias/profiler/native"
REMOTE_MEMORY = "tiresias/services/remote_memory/native"


def test_the_libraries_are_built_in_where_there_is_a_compiler(tmp_path: Path) -> None:
    if not (shutil.which("make") and shutil.which("cc")):
        pytest.skip("no make, or no C compiler")
    wheel = build("wheel", ROOT, tmp_path)
    built = {name for name in names(wheel) if name.endswith(".so")}
    assert {f"{NATIVE}/libtiresias_net.so", f"{NATIVE}/libtiresias_nccl.so"} <= built
    assert {f"{REMOTE_MEMORY}/libtiresias_remem.so", f"{REMOTE_MEMORY}/libtiresias_remem_preload.so"} <= built
    needed = max(newest_glibc(wheel, name, tmp_path) for name in built)
    assert f"-py3-none-manylinux_2_{max(needed, 17)}_" in wheel.name


def newest_glibc(wheel: Path, library: str, folder: Path) -> int:
    """The minor version of glibc 2 that the library needs, as objdump reads it."""
    file = zipfile.ZipFile(wheel).extract(library, folder)
    output = subprocess.run(["objdump", "-T", file], capture_output=True, text=True, timeout=60, check=True).stdout
    return max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", output))


@pytest.mark.parametrize("there", ["make", "cc"])
def test_a_wheel_that_is_built_without_tools_has_the_source(there: str, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("sh", there):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or "/bin/false")
    wheel = build("wheel", ROOT, tmp_path / "dist", PATH=str(tmp_path / "bin"))
    assert wheel.name.endswith("-py3-none-any.whl")
    assert {f"{NATIVE}/Makefile", f"{REMOTE_MEMORY}/Makefile", f"{REMOTE_MEMORY}/tiresias_remem.h"} <= set(names(wheel))
    assert not [name for name in names(wheel) if name.endswith(".so")]


def test_a_folder_without_libraries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"holds no libtiresias_\*\.so"):
        build("wheel", ROOT, tmp_path / "dist", TIRESIAS_NATIVE=str(tmp_path))
