"""Which folders the controller works in."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.users import ALICE, DAEMON, as_user
from tiresias.durable.own_folder import private_file, refuse_shared
from tiresias.errors import TiresiasError


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755, 0o775])
def test_its_own(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    refuse_shared(tmp_path, "paths.run")


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
def test_one_that_everybody_writes_to(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(TiresiasError, match=r"may be written to by everybody: make it .* or set paths\.run"):
        refuse_shared(tmp_path, "paths.run")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")
def test_a_folder_of_another_user() -> None:
    assert as_user(DAEMON, lambda: refuse_shared(Path("/"), "paths.run")) == "None", "root may do anything anyway"
    hers = Path(f"/tmp/tiresias-hers-{os.getpid()}")
    hers.mkdir(mode=0o755)
    try:
        os.chown(hers, ALICE, ALICE)
        output = as_user(DAEMON, lambda: refuse_shared(hers, "paths.state"))
        assert output.startswith(f"TiresiasError: {hers} belongs to user {ALICE}")
        refuse_shared(hers, "paths.state")  # root lifts holds for a controller that is gone
    finally:
        shutil.rmtree(hers)


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_a_file_that_no_other_user_reads(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        private_file(tmp_path / "new")
    finally:
        os.umask(before)
    (tmp_path / "old").touch(mode=0o644)
    private_file(tmp_path / "old")
    for name in ("new", "old"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_never_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").touch(mode=0o644)
    (tmp_path / "link").symlink_to("precious")
    with pytest.raises(OSError, match="symbolic links"):
        private_file(tmp_path / "link")
    assert stat.S_IMODE((tmp_path / "precious").stat().st_mode) == 0o644
