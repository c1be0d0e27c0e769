"""Proofs of a client's user by the munged of a private cluster, protected frames, and the key of a job for its owner."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.services.remote_memory.conftest import StartDonor
from tests.services.remote_memory.donors import SERVICE_KEY, connected, region_settings, until
from tiresias.errors import UsageError
from tiresias.protocol.remote_memory_use import KEY, folder_of
from tiresias.sandbox.cluster import Cluster
from tiresias.services.remote_memory.client.job_region import job_region_settings
from tiresias.services.remote_memory.client.remote_pages import RemotePages
from tiresias.services.remote_memory.messages.donor_messages import QueryMemory
from tiresias.services.remote_memory.messages.job_key import job_key, owned_name, owner_of_name
from tiresias.services.wire.channel import ConnectionLost
from tiresias.services.wire.session_messages import Refused

HERE = "/opt/tiresias/tests/services/remote_memory"
PORT = 7611


@pytest.fixture
def munge_donor(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with a donor of the account bob that requires proofs."""
    folder = cluster.shared / "donor"
    folder.mkdir()
    for name, content in (
        ("key", SERVICE_KEY.hex()),
        (
            "donor.json",
            json.dumps({
                "listen": f"127.0.0.1:{PORT}", "service_key_file": "/shared/donor/key", "most_mib": 8, "slab_mib": 1,
                "headroom_mib": 16, "munge": True, "announce": "/shared/donor/announce.json",
            }),
        ),
    ):  # fmt: skip
        (folder / name).write_text(content)
    cluster.run(["sh", "-c", "chown -R bob /shared/donor; chmod 700 /shared/donor; chmod 600 /shared/donor/*"])
    command = (
        "python3 -m tiresias.services.remote_memory.donor /shared/donor/donor.json > /shared/donor/log 2>&1 & echo $!"
    )
    pid = cluster.run(["sh", "-c", command], user="bob").stdout.strip()
    until((folder / "announce.json").exists, "the donor starts")
    yield cluster
    cluster.run(["sh", "-c", f"kill {pid}; rm -rf /shared/donor"])


def answer(cluster: Cluster, user: str, job: str, munge: bool = True) -> str:
    words = ["python3", f"{HERE}/prove.py", f"127.0.0.1:{PORT}", SERVICE_KEY.hex(), job, str(int(munge))]
    return cluster.run(words, user=user).stdout.strip()


@pytest.mark.sandbox
def test_a_key_is_of_use_for_its_owner_and_root_only(munge_donor: Cluster) -> None:
    uid = int(munge_donor.run(["id", "-u", "alice"]).stdout)
    job = owned_name("12", uid)
    assert answer(munge_donor, "alice", job) == "free"
    assert answer(munge_donor, "root", job) == "free"
    assert answer(munge_donor, "root", "12") == "free"
    assert "has the key of job 12.uid" in answer(munge_donor, "tiresias", job)
    assert "has the key of job 12, which belongs" in answer(munge_donor, "alice", "12")
    assert "this donor requires a munge credential" in answer(munge_donor, "alice", job, munge=False)


def test_a_donor_that_requires_proofs_serves_nothing_without(start_donor: StartDonor, tmp_path: Path) -> None:
    donor = start_donor(munge=True)
    channel = connected(donor)
    refused = channel.request(QueryMemory(1))
    assert isinstance(refused, Refused)
    assert "requires a munge credential" in refused.text
    with pytest.raises(ConnectionLost):
        channel.receive()
    channel.close()
    assert donor.statistics()["mapped"] == 0
    with RemotePages(region_settings(tmp_path, [donor.address], munge=True)) as region:  # no munged here
        region.write(0, bytes(4096))
        assert region.read(0, 1) == bytes(4096)


def test_protected_frames_carry_the_same_pages(start_donor: StartDonor, tmp_path: Path) -> None:
    donor = start_donor(protect="mac")
    channel = connected(donor)
    assert channel.protect == "mac"
    channel.close()
    with RemotePages(region_settings(tmp_path, [donor.address])) as region:
        pages = [bytes([number]) * 4096 for number in range(64)]

        def is_remote() -> bool:
            for number, page in enumerate(pages):
                region.write(number, page)
            return bool(region.statistics()["remote_pages"] == len(pages))

        until(is_remote, "the donor has them")
        assert region.read(0, len(pages)) == b"".join(pages)
        assert region.statistics()["read_remote"] == len(pages)


def test_a_changed_byte_ends_a_protected_connection(start_donor: StartDonor, tmp_path: Path) -> None:
    donor = start_donor(protect="mac")
    with ChangingRelay(donor.address) as address, RemotePages(region_settings(tmp_path, [address])) as region:

        def was_lost() -> bool:
            region.write(0, bytes(4096))
            return bool(region.statistics()["lost_donors"])

        until(was_lost, "the connection ends")
        assert region.read(0, 1) == bytes(4096)


class ChangingRelay:
    """A relay to a donor that changes one byte of each transfer of a page."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._target, self._server = (host, int(port)), socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> str:
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            donor = socket.create_connection(self._target)
            for source, sink, change in ((client, donor, True), (donor, client, False)):
                threading.Thread(target=_relay, args=(source, sink, change), daemon=True).start()


def _relay(source: socket.socket, sink: socket.socket, change: bool) -> None:
    with source, sink:
        while True:
            try:
                content = bytearray(source.recv(65536))
                if change and len(content) > 4096:
                    content[2048] ^= 1
                sink.sendall(content)
            except OSError:
                return
            if not content:
                return


def test_a_region_uses_the_key_that_the_prolog_has_left(start_donor: StartDonor, tmp_path: Path) -> None:
    donor, name = start_donor(), owned_name("812", 1000)
    files = folder_of(tmp_path / "run", "812")
    files.mkdir(parents=True)
    content = {
        "job": name,
        "key": job_key(SERVICE_KEY, name).hex(),
        "donors": [donor.address],
        "slab_mib": 1,
        "munge": False,
        "near": [],
    }
    (files / KEY).touch(mode=0o600)
    (files / KEY).write_text(json.dumps(content))
    env = {"SLURM_JOB_ID": "812", "SLURM_PROCID": "3"}
    settings = job_region_settings(tmp_path, 256, tmp_path / "run", env, hot_slab=0.2)
    assert (settings.identity.job, settings.identity.rank, settings.slab_bytes) == (name, 3, 1 << 20)
    with RemotePages(settings) as region:

        def is_remote() -> bool:
            region.write(0, bytes(4096))
            return bool(region.statistics()["remote_pages"])

        until(is_remote, "the donor accepts the key")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.unlink(), "has left no key for job 812"),
        (lambda file: file.chmod(0o644), "chmod 600"),
        (lambda file: file.write_text("{}"), "KeyError"),
    ],
)
def test_a_key_that_cannot_be_used_is_one_line(tmp_path: Path, change: Callable[[Path], object], message: str) -> None:
    files = folder_of(tmp_path, "812")
    files.mkdir(parents=True)
    (files / KEY).touch(mode=0o600)
    change(files / KEY)
    with pytest.raises(UsageError, match=message):
        job_region_settings(tmp_path, 1, tmp_path, {"SLURM_JOB_ID": "812"})
    with pytest.raises(UsageError, match="SLURM_JOB_ID is not set"):
        job_region_settings(tmp_path, 1, tmp_path, {})


@pytest.mark.parametrize(("name", "uid"), [("812.uid1000", 1000), ("812", None), ("a.b.uid1", None), ("812.uid", None)])
def test_the_name_of_a_job_has_its_owner(name: str, uid: int | None) -> None:
    assert owner_of_name(name) == uid
