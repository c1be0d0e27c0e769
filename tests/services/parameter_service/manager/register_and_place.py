"""Register a job by munge, declare two tensors, and print where they are once the aggregators run.

python3 register_and_place.py PUBLISHED JOB KEY SERVERS
"""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path
from typing import Any

from tiresias.errors import Unavailable
from tiresias.services.parameter_service.manager.manager_messages import PlaceTensors, RegisterJob, TensorPlacement
from tiresias.services.parameter_service.manager.munge_credential import encode_credential
from tiresias.services.parameter_service.wire.channel import Channel, address_of, tuned
from tiresias.services.parameter_service.wire.peer_identity import agent_identity

PUBLISHED, JOB, KEY, SERVERS = sys.argv[1:]
deadline, last = time.monotonic() + 60, ""


def placed() -> dict[str, str] | None:
    published = json.loads(Path(PUBLISHED).read_text())
    content = {"job": JOB, "key": KEY, "servers": int(SERVERS), "workers": 1}
    credential = encode_credential(json.dumps(content).encode(), published["uid"])
    sock = socket.create_connection(address_of(published["registration"]), 10)
    answer = Channel(tuned(sock), "registration", 10).request(RegisterJob(credential))
    if type(answer).__name__ != "Accepted":
        sys.exit(f"{answer}")
    agent = Channel.connect(published["address"], agent_identity(JOB, 0, 0), bytes.fromhex(KEY), 10)
    table = bytearray()

    def place(_: Any, count: int) -> memoryview:
        table.extend(bytes(count))
        return memoryview(table)

    answer = agent.request(PlaceTensors(), json.dumps({"fc": 1000, "conv": 900}).encode(), place=place)
    return dict(json.loads(table)) if answer == TensorPlacement(True) else None


while True:
    try:
        if found := placed():
            break
    except (Unavailable, OSError, ValueError) as error:
        last = str(error)
    if time.monotonic() > deadline:
        sys.exit(f"not placed: {last}")
    time.sleep(0.2)
print(json.dumps(found, sort_keys=True))
