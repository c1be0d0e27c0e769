"""What the campaign with virtual clusters has with `--parts`: sockets that starts select, and the GPUs that each run saw."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from tests.chaos import devices
from tests.chaos.checks import Check
from tests.chaos.run import ChaosRun
from tests.chaos.tenants import PART_TYPES

PLACEMENT: dict[str, Any] = {"part_types": list(PART_TYPES), "trial": "anywhere"}


class PartTenants(ChaosRun):
    """The parts of the campaign."""

    def check_more(self, check: Check) -> None:
        super().check_more(check)
        with closing(sqlite3.connect(f"file:{check.journal}?mode=ro", uri=True)) as db:
            found = list(devices.selected_parts(db, devices.seen_devices(self.scene.folder / "devices")))
        jobs = self.scene.jobs
        judged = [one for one in found if one.gpus and one.seen.name in jobs and not jobs[one.seen.name].exclusive]
        check.evidence["misplaced"] = []
        for words in devices.misplaced(judged):  # a killed slurmctld may have forgotten the pin of a start
            check.note("misplaced", words.partition(" ")[0], words)
        in_one_part = sum(sum(map(bool, one.gpus)) == 1 for one in judged)
        check.judged |= {"devices_seen": len(found), "devices_judged": len(judged), "in_one_part": in_one_part}
