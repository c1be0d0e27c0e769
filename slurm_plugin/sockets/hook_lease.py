"""The file by which job_submit.lua holds new jobs for the controller: until when, in which partitions, and for how long.

It is renewed in each cycle, before the cycle is published: a job that is submitted after `tiresias status` first answers is held.
Where that fails (a full disk, a read-only folder) the last one expires: new jobs are then scheduled by Slurm, and none waits for a
controller that is gone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from tiresias.protocol import job_submit_lease
from tiresias.protocol.job_submit_lease import JobSubmitLease
from tiresias.slurm_plugin.config import Config

log = logging.getLogger("tiresias")


class HookLease:
    """The lease of job_submit.lua.

    Attributes:
        alarms: why the last renewal failed, in one line; empty if it succeeded
    """

    def __init__(self, config: Config, default_partition: str) -> None:
        self._config, self._path = config, config.paths.run / job_submit_lease.FILE
        self._default_partition = default_partition
        self.alarms: list[str] = []

    def renew(self) -> None:
        """Renew the lease in mode exact; in other modes remove it, also one that a controller in mode exact left."""
        if self._config.admits:
            self._try(self._write)
        else:
            self.end()

    def end(self) -> None:
        """Remove the lease: job_submit.lua holds no more new jobs."""
        self._try(lambda: self._path.unlink(missing_ok=True))

    def _write(self) -> None:
        config, exempt = self._config, self._config.exempt
        lease = JobSubmitLease(
            int(time.time() + config.lease_seconds),
            config.partitions,
            self._default_partition,
            config.admission_wait,
            exempt.users,
            exempt.accounts,
        )
        temporary = self._path.with_name(".lease")
        temporary.write_text(lease.text())
        temporary.replace(self._path)

    def _try(self, operation: Callable[[], object]) -> None:
        """Run an operation on the file; a failure becomes an alarm, as Slurm works without a lease."""
        alarms = []
        try:
            operation()
        except OSError as error:
            folder, problem = self._path.parent, error.strerror
            alarms = [f"run folder {folder}: {problem}; job_submit.lua holds no new jobs until it can be written"]
        for alarm in alarms:
            if alarm not in self.alarms:
                log.warning("%s", alarm)
        self.alarms = alarms
