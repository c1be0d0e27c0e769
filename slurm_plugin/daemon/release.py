"""Lift every hold of Tiresias, in place of a controller that is dead, hung, or stopped by an administrator."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from tiresias.durable.leadership import Leadership
from tiresias.slurm_plugin.backends.select import CALL_DEADLINE, open_backend
from tiresias.slurm_plugin.cluster.site import read_site
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.controller import Controller
from tiresias.slurm_plugin.failover.fail_open import held


class Released(NamedTuple):
    """The result of a release.

    Attributes:
        jobs: The number of jobs that the journal had as held or in a transition; None: unknown.
        problems: What could not be lifted, one line each.
    """

    jobs: int | None
    problems: list[str]


def release(config: Config, leadership: Leadership) -> Released:
    """Lift every hold of Tiresias. Raises SlurmUnavailable before anything is done."""
    with (
        closing(open_backend(config.backend, CALL_DEADLINE)) as backend,
        closing(Controller.leading(config, backend, leadership, read_site(), though_stopped=True)) as controller,
    ):
        jobs = held(
            config
        )  # not earlier: a controller stopped in the middle of a write keeps the journal locked until it is opened
        return Released(jobs, controller.release())
