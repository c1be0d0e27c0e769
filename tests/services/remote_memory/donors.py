"""Real donors as processes, and regions on them."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.polling import pauses
from tiresias.services.remote_memory.client.region_settings import RegionSettings
from tiresias.services.remote_memory.messages.donor_messages import ReadDonorStatistics
from tiresias.services.remote_memory.messages.job_key import job_key
from tiresias.services.wire.channel import Channel
from tiresias.services.wire.peer_identity import agent_identity, service_identity

DEADLINE_S = 60.0
SERVICE_KEY = bytes(range(32))
JOB = "job-1"
SLAB_MIB = 1


def until(condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """Return the condition's first true value."""
    deadline, pause = time.monotonic() + deadline_s, pauses()
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {deadline_s:g} s: {what}"
        pause()
    return found


class DonorProcess:
    """A donor; it can be killed, stopped and started again at the same address."""

    def __init__(self, folder: Path, cgroup: Path | None = None, **options: Any) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._announce, self._config = folder / "announce.json", folder / "config.json"
        key = folder / "key"
        key.touch(mode=0o600)
        key.write_text(SERVICE_KEY.hex())
        self._content = {
            "listen": "127.0.0.1:0",
            "service_key_file": str(key),
            "most_mib": 32,
            "headroom_mib": 64,
            "slab_mib": SLAB_MIB,
            "announce": str(self._announce),
            "poll_s": 0.02,
            "slurm_node": "",
        }
        self.process: subprocess.Popen[bytes] | None = None
        self._cgroup = cgroup
        self.start(**options)

    def start(self, **options: Any) -> None:
        """Start the process, with changed options."""
        self._content |= options
        self._config.touch(mode=0o600)
        self._config.write_text(json.dumps(self._content))
        self._announce.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tiresias.services.remote_memory.donor", str(self._config)]
        if self._cgroup:
            command = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self._cgroup / "cgroup.procs"), *command]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, stdout=log)
        process = self.process
        until(lambda: self._announce.exists() or process.poll() is not None, "a donor starts")
        assert self._announce.exists(), self.log
        self.address: str = json.loads(self._announce.read_text())["address"]
        self._content["listen"] = self.address

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process by SIGKILL, if it runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def end(self) -> None:
        """End the process by SIGTERM, also a stopped one."""
        assert self.process is not None
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.process.terminate()
            assert self.process.wait(30) == 0, self.log

    def statistics(self) -> dict[str, Any]:
        channel = Channel.connect(self.address, service_identity(f"test-{secrets.token_hex(4)}"), SERVICE_KEY, 10)
        try:
            return dict(channel.request(ReadDonorStatistics()).statistics)
        finally:
            channel.close()


def connected(donor: DonorProcess, job: str = JOB) -> Channel:
    """Return a client's bare connection."""
    return Channel.connect(donor.address, agent_identity(job, 0, 0), job_key(SERVICE_KEY, job), 10)


def region_settings(disk: Path, donors: list[str], pages: int = 1024, **options: Any) -> RegionSettings:
    """Return the configuration of a region whose slabs are hot at their second request."""
    values: dict[str, Any] = {"slab_bytes": SLAB_MIB << 20, "hot_slab": 0.2, "donor_timeout_s": 1.0, "retry_s": 0.1}
    return RegionSettings(
        agent_identity(JOB, 0, 0), job_key(SERVICE_KEY, JOB), tuple(donors), disk, pages, **(values | options)
    )
