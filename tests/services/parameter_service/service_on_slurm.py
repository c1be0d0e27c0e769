"""A parameter service on a private cluster: its folder, its manager processes, and jobs that register."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

from tests.polling import pauses
from tiresias.sandbox.cluster import Cluster

HERE = "/opt/tiresias/tests/services/parameter_service/manager"
SERVICE, KEY = "tiresias", "ab" * 32
SCRIPT = """#!/bin/sh
umask 077
folder=/shared/service/aggregators/$1
mkdir -p $folder
cat > $folder/config.json <<END
{"listen": "127.0.0.1:0", "state": "$folder/state", "service_key_file": "/shared/service/key", "memory_mib": 64,
 "announce": "/shared/service/announce/$1.json"}
END
exec python3 -m tiresias.services.parameter_service.aggregator $folder/config.json
"""


class Service:
    """The folder of a service on a cluster, and its managers."""

    def __init__(self, cluster: Cluster, budget: int, **settings: Any) -> None:
        self._cluster = cluster
        folder = cluster.shared / "service"
        for each in ("", "announce"):
            (folder / each).mkdir(exist_ok=True)
        (folder / "aggregator.sh").write_text(SCRIPT)
        (folder / "key").write_text("0f" * 32)
        (folder / "key").chmod(0o600)
        content = {
            "service_key_file": "/shared/service/key",
            "manager": "m2", "state": "/shared/service/state", "listen": "127.0.0.1:0", "registration": "127.0.0.1:0",
            "publish": "/shared/service/published.json", "announce": "/shared/service/announce",
            "script": "/shared/service/aggregator.sh",
            "report": "/shared/service/report", "budget": budget, "lease_s": 2.0, "poll_s": 0.2, "period_s": 3600.0, **settings,
        }  # fmt: skip
        (folder / "manager.json").write_text(json.dumps(content))
        cluster.run(["chown", "-R", SERVICE, "/shared/service"])
        self.published = folder / "published.json"
        self.managers: list[subprocess.Popen[str]] = []

    def start(self, path: str = "") -> subprocess.Popen[str]:
        """Start a manager; programs of the folder `path` come before others."""
        command = [
            *(["sh", "-c", f'PATH={path}:$PATH exec "$@"', "sh"] if path else []),
            "setpriv",
            "--pdeathsig",
            "TERM",
            "python3",
            "-m",
            "tiresias.services.parameter_service.manager",
            "/shared/service/manager.json",
        ]
        self.managers.append(self._cluster.popen(command, user=SERVICE, text=True))
        return self.managers[-1]

    def kill(self) -> None:
        """Send SIGKILL to the manager that leads."""
        self.signal("KILL")

    def signal(self, name: str) -> None:
        """Send a signal to the manager that leads."""
        pid = json.loads(self.published.read_text())["pid"]
        self._cluster.run(["kill", f"-{name}", str(pid)])

    def seen(self, user: str) -> dict[str, Any]:
        """What `tiresias services --json` prints for a user."""
        command = ["tiresias", "services", "--report", "/shared/service/report", "--json"]
        found: dict[str, Any] = json.loads(self._cluster.run(command, user=user).stdout)
        return found

    def examined(self) -> list[str]:
        """What `tiresias doctor` finds of the service."""
        config = self._cluster.shared / "service/tiresias.toml"
        config.write_text('service_report = "/shared/service/report"\n')
        command = ["tiresias", "doctor", "--config", "/shared/service/tiresias.toml", "--json"]
        done = self._cluster.run(command, user=SERVICE, check=False)
        return [each["words"] for each in json.loads(done.stdout) if each["about"] == "parameter service"]

    def register(self, job: str, servers: int, key: str = KEY, user: str = "alice") -> subprocess.CompletedProcess[str]:
        """Register a job once, without its tensors."""
        code = (
            "import sys; from pathlib import Path; from tiresias.errors import TiresiasError\n"
            "from tiresias.services.parameter_service.agent.manager_link import register\n"
            "try: register(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), 1)\n"
            "except TiresiasError as error: sys.exit(str(error))\n"
        )
        command = ["python3", "-c", code, "/shared/service/published.json", job, key, str(servers)]
        return self._cluster.run(command, user=user, check=False)

    def place(self, job: str, servers: int, key: str = KEY, user: str = "alice") -> subprocess.CompletedProcess[str]:
        command = ["python3", f"{HERE}/register_and_place.py", "/shared/service/published.json", job, key, str(servers)]
        return self._cluster.run(command, user=user, check=False)

    def cancel_all(self) -> None:
        """End the aggregators."""

        def ended() -> bool:
            jobs = list(self.queued().values())
            for options in ([], ["--signal=KILL", "--full"]) if jobs else ():
                self._cluster.run(["scancel", "--quiet", *options, *jobs], check=False)
            return not jobs

        until(ended, self.queued)

    def lead(self, path: str = "") -> None:
        """Start a manager and wait until it leads."""
        self.start(path)
        until(self.published.exists, lambda: "the manager does not publish its address")

    def end(self) -> None:
        """End the managers and the aggregators, and remove the folder."""
        for manager in self.managers:
            manager.terminate()
            manager.wait(30)
        until(lambda: not managers_run(self._cluster), lambda: "managers do not end")
        self.cancel_all()
        self._cluster.run(["rm", "-rf", "/shared/service"])

    def queued(self) -> dict[str, str]:
        lines = [
            line.split()
            for line in self._cluster.run(["squeue", "-h", "-u", SERVICE, "-o", "%j %A"]).stdout.splitlines()
        ]
        assert len(dict(lines)) == len(lines), "an aggregator is there twice"
        return dict(lines)


def managers_run(cluster: Cluster) -> bool:
    found = cluster.run(["pgrep", "-f", "tiresias.services.parameter_service.manager"], check=False)
    assert found.returncode in (0, 1), found.stderr
    return not found.returncode


def until(condition: Callable[[], bool], what: Callable[[], object], seconds: float = 60.0) -> None:
    began, pause = time.monotonic(), pauses()
    while not condition():
        assert time.monotonic() - began < seconds, what()
        pause()
