"""Two users on one shared folder: neither reads, overwrites or plants a checkpoint of the other. Real users, so root runs it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.users import ALICE, MALLORY, as_user
from tiresias.checkpoint import Store
from tiresias.checkpoint.world import World

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")


@pytest.fixture
def shared() -> Iterator[Path]:
    """As a site's checkpoint root: any user may make a folder, and remove only own files."""
    folder = Path(tempfile.mkdtemp(prefix="tiresias-users-", dir="/tmp"))  # where other users get to
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


def save(root: Path, step: int, value: str) -> Callable[[], object]:
    return lambda: Store(root).save(step, {"x": value}, World(launch="known"))


def restore(root: Path) -> Callable[[], object]:
    def action() -> object:
        found = Store(root).restore()
        return found and found.state["x"]

    return action


def tree(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Owner, mode and content of all there is."""
    return {
        str(path): ((found := path.lstat()).st_uid, found.st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(root.rglob("*"))
    }


def test_a_folder_that_was_there_first(shared: Path) -> None:
    """Job ids are easily guessed: her folder is made, with a checkpoint in it, and open to all."""
    root = shared / "77"
    as_user(MALLORY, save(root, 5, "planted"))
    for path in (root, *root.rglob("*")):
        path.chmod(0o777)
    before = tree(shared)
    assert (
        as_user(ALICE, restore(root))
        == f"NotYours: {root}: this folder belongs to user {MALLORY}, not to you; name another folder"
    )
    assert as_user(ALICE, save(root, 6, "hers")).startswith(
        f"SaveFailed: checkpoint of step 6 in {root}: {root}: this folder belongs"
    )
    assert tree(shared) == before


@pytest.mark.parametrize("to", ["attacker", "hers"])
def test_a_link_that_was_there_first(shared: Path, to: str) -> None:
    """To a folder of the attacker, and to a folder of another job of the user."""
    as_user(MALLORY, save(shared / "attacker", 5, "planted"))
    as_user(ALICE, save(shared / "hers", 5, "of another job"))
    (shared / "attacker").chmod(0o777)
    as_user(MALLORY, lambda: (shared / "77").symlink_to(shared / to))
    before = tree(shared)
    for action in (restore(shared / "77"), save(shared / "77", 6, "hers")):
        assert f"this link belongs to user {MALLORY}" in as_user(ALICE, action)
    assert tree(shared) == before


def test_a_link_of_ones_own_is_followed(shared: Path) -> None:
    as_user(ALICE, save(shared / "hers", 5, "x"))
    as_user(ALICE, lambda: (shared / "here").symlink_to(shared / "hers"))
    assert as_user(ALICE, save(shared / "here", 6, "y")) == str(shared / "here" / "step-6")
    assert as_user(ALICE, restore(shared / "here")) == "y"


def test_he_can_neither_read_nor_write_hers(shared: Path) -> None:
    root = shared / "77"
    as_user(ALICE, save(root, 5, "hers"))
    before = tree(shared)
    attempts: list[Callable[[], object]] = [
        restore(root),
        save(root, 6, "attacker"),
        lambda: Store(root).steps(),
        lambda: root.rename(shared / "gone"),
        lambda: (root / "step-5" / "rank-0.json").read_text(),
        lambda: os.link(root / "step-5" / "rank-0.json", shared / "mine"),
        lambda: (root / "step-9").mkdir(),
        lambda: shutil.rmtree(root),
    ]
    for attempt in attempts:
        assert as_user(MALLORY, attempt).split(":")[0] in ("NotYours", "SaveFailed", "Unavailable", "PermissionError")
    assert tree(shared) == before


@pytest.fixture
def careless(shared: Path) -> Path:
    """Her folder with step 1, which she has opened to all."""
    as_user(ALICE, save(shared / "77", 1, "hers"))
    (shared / "77").chmod(0o777)
    return shared / "77"


def test_a_checkpoint_planted_in_her_own_folder(careless: Path) -> None:
    as_user(MALLORY, save(careless.parent / "attacker", 9, "planted"))
    shutil.copytree(careless.parent / "attacker" / "step-9", careless / "step-9")
    for path in ((careless / "step-9"), *(careless / "step-9").iterdir()):
        os.chown(path, MALLORY, MALLORY)
        path.chmod(0o777)
    as_user(MALLORY, lambda: (careless / "step-10").symlink_to(careless.parent / "attacker" / "step-9"))
    as_user(MALLORY, lambda: os.mkfifo(careless / "step-11"))
    assert as_user(ALICE, restore(careless)) == "hers"


def test_a_users_folder_with_the_attackers_files(careless: Path) -> None:
    """As after a mistake with chmod: the folder is hers, what is in it is not."""
    as_user(ALICE, save(careless, 2, "newest"))
    for path in (careless / "step-2").iterdir():
        os.chown(path, MALLORY, MALLORY)
        path.chmod(0o666)
    assert as_user(ALICE, restore(careless)) == "hers"


@pytest.mark.parametrize("kind", ["folder", "link", "fifo", "file"])
def test_the_temporary_name_is_taken(careless: Path, kind: str) -> None:
    """The name is known for jobs of several ranks. Nothing of hers is written where he can change it."""
    temporary = careless / ".step-2.known"
    attackers = careless.parent / "attacker"
    as_user(MALLORY, attackers.mkdir)
    attackers.chmod(0o777)
    plant: dict[str, Callable[[], object]] = {
        "folder": lambda: temporary.mkdir(mode=0o777),
        "link": lambda: temporary.symlink_to(attackers),
        "fifo": lambda: os.mkfifo(temporary),
        "file": lambda: temporary.write_text(""),
    }
    as_user(MALLORY, plant[kind])
    if kind == "folder":
        temporary.chmod(0o777)
    assert as_user(ALICE, save(careless, 2, "new")).startswith("SaveFailed")
    assert not list(attackers.iterdir())
    assert as_user(ALICE, save(careless, 2, "new")).endswith("step-2"), "what she may remove is out of the way"
    assert as_user(ALICE, restore(careless)) == "new"


def test_a_hard_link_to_a_file_of_hers_is_not_written_through(careless: Path) -> None:
    """Where the kernel allows such links (fs.protected_hardlinks=0)."""
    precious = careless.parent / "precious"
    as_user(ALICE, lambda: precious.write_text("precious"))
    os.link(precious, careless / ".attempts.json")
    assert as_user(ALICE, restore(careless)) == "hers"
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("plant", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/etc/passwd")])
def test_something_else_in_the_place_of_the_count(careless: Path, plant: Callable[[Path], object]) -> None:
    as_user(MALLORY, lambda: plant(careless / "attempts.json"))
    assert as_user(ALICE, restore(careless)) == "hers"
