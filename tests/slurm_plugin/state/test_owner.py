"""What root writes into the state folder belongs to the owner of the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiresias.slurm_plugin.state.owner import as_owner

OTHER_UID = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_writes_as_the_owner(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    os.chown(tmp_path, OTHER_UID, OTHER_UID)
    inner = tmp_path / "state"
    inner.mkdir()
    os.chown(inner, OTHER_UID, OTHER_UID)
    for parent in tmp_path.parents:  # the owner must be able to get there
        if parent.stat().st_mode & 0o011 == 0:
            parent.chmod(0o755)
    with as_owner(inner):
        (inner / "file").write_text("")
    assert (inner / "file").stat().st_uid == OTHER_UID
    assert (os.geteuid(), os.getegid()) == (0, os.getgid())


def test_others_write_as_themselves(tmp_path: Path) -> None:
    with as_owner(tmp_path):
        (tmp_path / "file").write_text("")
    with as_owner(tmp_path / "missing"):
        pass
    assert (tmp_path / "file").stat().st_uid == os.geteuid()
