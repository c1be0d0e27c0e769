"""What users can put where the controller reads: into their own control folder, and in place of another user's.

Alice owns the job, Mallory attacks it, the controller is a third user. All three are real, so root runs this.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.users import ALICE, DAEMON, MALLORY, as_user
from tiresias.protocol import control
from tiresias.protocol.job_kind import Key
from tiresias.protocol.profile_summary import Summary, as_object
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.observation.profiles import Profiles

others = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")
PARKED = {"restart": 0, "state": "parked", "step": 9}
NOTHING = str(control.JobReport())
KEY = Key("train", "0123456789abcdef", 4)


@pytest.fixture
def root() -> Iterator[Path]:
    """As a site's control root: every user may make a folder, and remove only their own."""
    folder = Path(tempfile.mkdtemp(prefix="tiresias-control-", dir="/tmp"))  # where other users get to
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


def make(folder: Path, uid: int, mode: int = 0o755) -> Path:
    """`folder` and the one above it, of that user's."""
    for each in (folder.parent, folder):
        if not each.exists():
            as_user(uid, partial(_make_folder, each, mode))
    return folder


def _make_folder(path: Path, mode: int) -> None:
    path.mkdir()
    path.chmod(mode)


def write_report(folder: Path, uid: int, content: dict[str, object]) -> None:
    as_user(uid, lambda: control.write(folder, control.SUPERVISOR, content))


def reported(root: Path, job: str = "77") -> str:
    """What the controller reads of Alice's job; an error's text where it fails."""
    return as_user(DAEMON, lambda: control.report(root, ALICE, job))


@others
def test_an_honest_report_is_read(root: Path) -> None:
    write_report(make(control.job_folder(root, ALICE, "77"), ALICE), ALICE, PARKED)
    assert "state='parked'" in reported(root)


def sparse(path: Path) -> None:
    with path.open("w") as file:
        file.write('{"restart": 0}')
        file.truncate(1 << 40)


def listening(path: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(str(path))


def fifo_and_link(path: Path) -> None:
    os.mkfifo(path.with_name("f"))
    path.symlink_to("f")


def good_file_and_link(path: Path) -> None:
    path.with_name("g").write_text(json.dumps(PARKED))
    path.symlink_to("g")


def unreadable(path: Path) -> None:
    path.write_text(json.dumps(PARKED))
    path.chmod(0)


OWN: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": listening,
    "a terabyte of holes": sparse,
    "a link to a secret": lambda path: path.symlink_to("/etc/shadow"),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to a FIFO": fifo_and_link,
    "a link to a good file": good_file_and_link,
    "an unreadable file": unreadable,
    "a file beyond the limit": lambda path: path.write_text(json.dumps(PARKED | {"x": "x" * control.MAX_BYTES})),
    "deep nesting": lambda path: path.write_text('{"restart":' + "[" * 16_000),
    "no JSON": lambda path: path.write_bytes(b"\xff\xfe\x00\x1b[2J"),
    "no object": lambda path: path.write_text('["parked"]'),
    "a number of 16,000 digits": lambda path: path.write_text('{"restart": ' + "9" * 16_000 + "}"),
    "nothing": Path.touch,
}


@others
@pytest.mark.parametrize("what", OWN)
@pytest.mark.parametrize("name", [control.SUPERVISOR, control.PROGRAM])
def test_an_owner_cannot_make_the_controller_read_wait_or_fail(root: Path, what: str, name: str) -> None:
    folder = make(control.job_folder(root, ALICE, "77"), ALICE)
    as_user(ALICE, lambda: OWN[what](folder / name))
    assert os.path.lexists(folder / name), "the attack was not even mounted"
    assert reported(root) == NOTHING


@others
@pytest.mark.parametrize("kind", ["device", "hardlink"])
def test_what_only_another_kernel_would_let_her_make(root: Path, kind: str) -> None:
    """A device file; a hard link to another user's file, where fs.protected_hardlinks is 0."""
    path = make(control.job_folder(root, ALICE, "77"), ALICE) / control.SUPERVISOR
    if kind == "device":
        os.mknod(path, 0o20666, os.makedev(1, 5))  # /dev/zero
    else:
        (root / "other").write_text(json.dumps(PARKED))
        os.chown(root / "other", MALLORY, MALLORY)
        os.link(root / "other", path)
    assert reported(root) == NOTHING


def elsewhere(root: Path) -> Path:
    """A folder of Alice's with a report that is true, but of another job."""
    folder = make(root / "of-another-time" / "12", ALICE)
    write_report(folder, ALICE, PARKED)
    return folder


def anothers_files(root: Path) -> None:
    write_report(make(control.job_folder(root, ALICE, "77"), MALLORY), MALLORY, PARKED)


def user_folder_is_a_link(root: Path) -> None:
    (root / "of-another-time" / "77").symlink_to(elsewhere(root))  # hers: as careless as can be
    as_user(MALLORY, lambda: (root / str(ALICE)).symlink_to(root / "of-another-time"))


def job_folder_is_a_link(root: Path) -> None:
    true = elsewhere(root)
    own_folder = root / str(ALICE)
    as_user(MALLORY, lambda: _make_folder(own_folder, 0o755))
    as_user(MALLORY, lambda: (own_folder / "77").symlink_to(true))


def own_file_in_anothers_folder(root: Path) -> None:
    true = elsewhere(root)
    folder = make(control.job_folder(root, ALICE, "77"), MALLORY)
    os.link(true / control.SUPERVISOR, folder / control.SUPERVISOR)  # where fs.protected_hardlinks is 0


def anothers_folder_in_the_users(root: Path) -> None:
    """Alice's user folder is open to all: Mallory makes the job's folder there, with Alice's file in it."""
    true = elsewhere(root)
    as_user(ALICE, lambda: _make_folder(root / str(ALICE), 0o777))
    folder = make(control.job_folder(root, ALICE, "77"), MALLORY)
    os.link(true / control.SUPERVISOR, folder / control.SUPERVISOR)


def anothers_file_in_the_jobs(root: Path) -> None:
    """Her job's folder is open to all."""
    folder = make(control.job_folder(root, ALICE, "77"), ALICE, mode=0o777)
    write_report(folder, MALLORY, PARKED)
    assert (folder / control.SUPERVISOR).stat().st_uid == MALLORY


@others
@pytest.mark.parametrize(
    "attack",
    [
        anothers_files,
        user_folder_is_a_link,
        job_folder_is_a_link,
        own_file_in_anothers_folder,
        anothers_folder_in_the_users,
        anothers_file_in_the_jobs,
    ],
)
def test_no_other_user_can_report_that_a_job_has_parked(root: Path, attack: Callable[[Path], None]) -> None:
    """A job that reports a save is requeued: a false report about another user's job would destroy its work."""
    attack(root)
    assert (control.job_folder(root, ALICE, "77") / control.SUPERVISOR).exists(), "the attack was not even mounted"
    assert reported(root) == NOTHING


@others
def test_a_site_can_keep_others_out(root: Path) -> None:
    """Her user folder is made for her, open to the controller's group alone (docs/explanation/security.md)."""
    hers = root / str(ALICE)
    hers.mkdir(mode=0o750)
    os.chown(hers, ALICE, DAEMON)
    hers.chmod(0o750)
    write_report(make(control.job_folder(root, ALICE, "77"), ALICE), ALICE, PARKED)
    assert "state='parked'" in reported(root)
    assert as_user(MALLORY, lambda: list(hers.iterdir())).startswith("PermissionError")
    assert as_user(MALLORY, lambda: (hers / "77" / control.SUPERVISOR).read_text()).startswith("PermissionError")


@others
def test_no_other_user_can_write_the_traffic_of_a_job(root: Path) -> None:
    job = SlurmJob(**dict.fromkeys(SlurmJob.__slots__) | {  # type: ignore[arg-type]
        "id": "77", "name": KEY.name, "script": KEY.script, "gpus": KEY.gpus, "uid": ALICE})  # fmt: skip
    folder = make(control.profiles_folder(root, ALICE), MALLORY)
    as_user(MALLORY, lambda: control.write(folder, KEY.file, as_object(KEY, Summary("spread"))))
    assert as_user(DAEMON, lambda: Profiles(root).poll([job], 0.0)) == "{}"
    shutil.rmtree(root / str(ALICE))
    folder = make(control.profiles_folder(root, ALICE), ALICE)
    as_user(ALICE, lambda: control.write(folder, KEY.file, as_object(KEY, Summary("spread"))))
    assert "spread" in as_user(DAEMON, lambda: Profiles(root).poll([job], 0.0))


@others
def test_ids_that_lead_elsewhere(root: Path) -> None:
    write_report(make(control.job_folder(root, MALLORY, "77"), MALLORY), MALLORY, PARKED)
    for job in (f"../{MALLORY}/77", "..", ".", "", "/", "77\0", "7\n7", "x" * 5000):
        assert reported(root, job) == NOTHING


TORN = (json.dumps(PARKED), json.dumps(PARKED)[:9], "x" * 3 * control.MAX_BYTES, "", json.dumps(PARKED | {"step": 8}))


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    """Torn, cut and grown by a writer that renames nothing: what is not whole reads as nothing, and nothing fails."""
    path = make(control.job_folder(tmp_path, os.getuid(), "77"), os.getuid()) / control.SUPERVISOR
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            for text in TORN:
                path.write_text(text)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = {str(control.read(path, os.getuid())) for _ in range(5000)}
    finally:
        done.set()
        writer.join()
    assert found <= {"{}", str(PARKED), str(PARKED | {"step": 8})}


def test_a_writer_is_not_held_up_by_what_was_planted(tmp_path: Path) -> None:
    """Her folder is open to all, and the name of the temporary file is known."""
    folder = make(control.job_folder(tmp_path, os.getuid(), "77"), os.getuid())
    planted = folder / f".{control.SUPERVISOR}.{os.getpid()}"
    precious = tmp_path / "precious"
    precious.write_text("precious")
    for plant in (os.mkfifo, lambda path: path.symlink_to(precious), lambda path: os.link(precious, path)):
        plant(planted)
        control.write(folder, control.SUPERVISOR, PARKED)
        assert control.read(folder / control.SUPERVISOR, os.getuid()) == PARKED
    assert precious.read_text() == "precious"
