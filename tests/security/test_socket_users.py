"""What one user can do to another at the control socket. Real users, so root runs it."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.users import ALICE, MALLORY, as_user
from tiresias.slurm_plugin.sockets.control_client import ask
from tiresias.slurm_plugin.sockets.control_socket import MAX_CLIENTS, ControlServer
from tiresias.slurm_plugin.sockets.peer import Peer

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")


@pytest.fixture
def path() -> Iterator[Path]:
    """Where other users get to."""
    folder = Path(tempfile.mkdtemp(prefix="tiresias-run-", dir="/tmp"))
    folder.chmod(0o755)
    with ControlServer(folder / "control.sock", identified):
        yield folder / "control.sock"
    shutil.rmtree(folder)


def identified(request: dict[str, Any], peer: Peer) -> dict[str, Any]:
    return {"uid": peer.uid, "claimed": request.get("uid")}


def connected(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(path))
    client.settimeout(10)
    return client


def test_a_claimed_user_id_is_ignored(path: Path) -> None:
    assert as_user(MALLORY, lambda: ask(path, {"uid": 0})) == str({"uid": MALLORY, "claimed": 0})


def test_a_crowd_of_one_user_costs_another_nothing(path: Path) -> None:
    """Hers is the oldest connection, so it would be the first to go."""
    hers = connected(path)
    hers.sendall(b'{"half":')
    own_folder = as_user(MALLORY, lambda: len([connected(path) for _ in range(4 * MAX_CLIENTS)]))
    assert own_folder == str(4 * MAX_CLIENTS)
    hers.sendall(b" 1}\n")
    assert hers.recv(100).startswith(b'{"uid": 0')
    hers.close()


def test_a_flood_of_requests_of_one_user_is_no_wall_for_another(path: Path) -> None:
    done = threading.Event()
    flood = threading.Thread(target=lambda: [ask(path, {"n": 1}, 20) for _ in iter(done.is_set, True)])
    flood.start()
    try:
        assert [as_user(ALICE, lambda: ask(path, {}, 10)["uid"]) for _ in range(20)] == [str(ALICE)] * 20
    finally:
        done.set()
        flood.join()


@pytest.mark.parametrize("attack", ["unlink", "rename", "replace"])
def test_the_socket_itself_is_out_of_reach(path: Path, attack: str) -> None:
    def act() -> None:
        if attack == "unlink":
            path.unlink()
        elif attack == "rename":
            path.rename(path.with_name("x"))
        else:
            path.with_name("mine").touch()
            path.with_name("mine").replace(path)

    assert as_user(MALLORY, act).startswith("PermissionError")
    assert as_user(ALICE, lambda: ask(path, {})["uid"]) == str(ALICE)
