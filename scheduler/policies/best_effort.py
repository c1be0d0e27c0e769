"""FIFO in which a job that does not fit is overtaken by those that do. Never preempts."""

from __future__ import annotations

from tiresias.scheduler.policies.fifo import Fifo


class BestEffort(Fifo):
    blocks = False
