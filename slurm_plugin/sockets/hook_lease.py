"""The file by which job_submit.lua knows until when it may set new jobs aside for us, of which partitions, and for how long.

It is renewed after each cycle. Where that fails (a full disk, a read-only folder) the last one ends by itself: new jobs are
Slurm's then, and nobody waits for a controller that does not come.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from tiresias.slurm_plugin.config import Config

log = logging.getLogger("tiresias")


class HookLease:
    """alarms: why it could not be renewed the last time, in a line; empty when it could."""

    def __init__(self, config: Config, default_partition: str) -> None:
        self._config, self._path = config, config.paths.run / "lease"
        names = [",".join(one) for one in (config.partitions, config.exempt.users, config.exempt.accounts)]
        self._terms = [names[0], default_partition, config.admission_wait, *names[1:]]
        self.alarms: list[str] = []

    def renew(self) -> None:
        """In mode exact; nobody is set aside for a controller that only looks, also not by what one in mode exact left."""
        if self._config.mode == "exact":
            self._try(self._write)
        else:
            self.end()

    def end(self) -> None:
        """Nobody is set aside from now on."""
        self._try(lambda: self._path.unlink(missing_ok=True))

    def _write(self) -> None:
        until = int(time.time() + self._config.lease_seconds)
        temporary = self._path.with_name(".lease")
        temporary.write_text("".join(f"{line}\n" for line in (until, *self._terms)))
        temporary.replace(self._path)

    def _try(self, deed: Callable[[], object]) -> None:
        """Never fails: Slurm carries on without a lease."""
        alarms = []
        try:
            deed()
        except OSError as error:
            folder, problem = self._path.parent, error.strerror
            alarms = [f"run folder {folder}: {problem}; job_submit.lua sets no new jobs aside until it can be written"]
        for alarm in alarms:
            if alarm not in self.alarms:
                log.warning("%s", alarm)
        self.alarms = alarms
