"""Register a job by munge, declare two tensors, and print where they are once the aggregators run.

python3 register_and_place.py PUBLISHED JOB KEY SERVERS
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from tiresias.errors import TiresiasError, Unavailable
from tiresias.services.parameter_service.agent.manager_directory import ManagerDirectory
from tiresias.services.parameter_service.agent.manager_link import ManagerLink, NotNow, register
from tiresias.services.parameter_service.agent.service_job import ServiceJob

PUBLISHED, JOB, KEY, SERVERS = sys.argv[1:]
TIMEOUT_S = 60.0


def placed() -> dict[str, str]:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            register(Path(PUBLISHED), JOB, KEY, int(SERVERS), 1)
            break
        except NotNow:
            raise
        except Unavailable:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)
    link = ManagerLink(ServiceJob(Path(), JOB, bytes.fromhex(KEY), 0, 0), Path(PUBLISHED))
    return ManagerDirectory(link, TIMEOUT_S).assign({"fc": 1000, "conv": 1000})


try:
    print(json.dumps(placed(), sort_keys=True))
except TiresiasError as error:
    sys.exit(str(error))
