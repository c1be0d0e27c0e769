"""Guests whose kernel panics are started again, those whose script fails are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.profiler.rdma import guest
from tests.profiler.rdma.guest import Guest, GuestFailed, GuestPanicked, run

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600), pytest.mark.xdist_group("guests")]
CRASH = "echo c > /proc/sysrq-trigger"


@pytest.fixture(autouse=True)
def _installed() -> None:
    if reason := guest.missing():
        pytest.skip(reason)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Those of two guests."""
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    return folders


def test_both_run_again_from_what_they_were_given_after_a_panic_of_one(folders: list[Path]) -> None:
    (folders[1] / "panics").touch()
    script = f"""mkdir -p /share/made/here; echo >> /share/made/here/boots
if [ -e /share/panics ]; then rm /share/panics; {CRASH}; fi
wc -l < /share/made/here/boots"""
    outputs = run([Guest(folder, script) for folder in folders], timeout=400)
    assert [output.splitlines()[-1] for output in outputs] == ["1", "1"]
    assert not (folders[1] / "panics").exists()


def test_a_script_that_fails_is_not_run_again_and_ends_the_other_guest(folders: list[Path]) -> None:
    """The first guest would sleep beyond the time limit."""
    (folders[1] / "fails").touch()
    script = "if [ -e /share/fails ]; then rm /share/fails; exit 3; fi; [ $(hostname) = guest2 ] || sleep 9999"
    with pytest.raises(GuestFailed, match="script failed") as failed:
        run([Guest(folder, script) for folder in folders], timeout=200)
    assert not isinstance(failed.value, GuestPanicked)


def test_the_last_panic_fails_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "BOOTS", 1)
    with pytest.raises(GuestPanicked, match="sysrq triggered crash"):
        run([Guest(tmp_path, CRASH)])
