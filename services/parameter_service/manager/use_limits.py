"""What one user, or one account, may use of the service: the keys per_user and per_account of the manager's configuration. Pure.

    {"per_user": {"aggregators": 0.5, "jobs": 10, "bytes": 8000000000}, "per_account": {"aggregators": 12}}

aggregators   of the budget: a number, or a fraction below 1
jobs          registered at a time
bytes         of the tensors that its jobs declare

A key that is left out is no limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from tiresias.errors import Unavailable, UsageError
from tiresias.protocol.service_report import PublishedUseLimits


class OverLimit(Unavailable):
    """Not now: a user or an account has used its limit."""


class ServiceUse(NamedTuple):
    """What the jobs of a user or of an account use.

    Attributes:
        aggregators: Reserved for profiles, and the share of the work on others.
        jobs: Registered jobs.
        bytes: Declared bytes of their tensors.
    """

    aggregators: float = 0.0
    jobs: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class UseLimits:
    """The limits; None: no limit.

    Attributes:
        aggregators: A number of 1 or more, or a fraction of the budget.
        jobs: A number of jobs.
        bytes: Of tensors.
    """

    aggregators: float | None = None
    jobs: int | None = None
    bytes: int | None = None

    def number_of_aggregators(self, budget: int) -> float | None:
        """Return the limit of aggregators; at least 1."""
        if self.aggregators is None or self.aggregators >= 1:
            return self.aggregators
        return max(1.0, self.aggregators * budget)

    def shown(self, budget: int) -> PublishedUseLimits:
        """Return the limits for the report."""
        return {"aggregators": self.number_of_aggregators(budget), "jobs": self.jobs, "bytes": self.bytes}

    def check_job(self, subject: str, used: ServiceUse, servers: int, budget: int) -> None:
        """Check that one more job is allowed.

        Args:
            subject: Whose limits they are, as the message names it.
            used: What is used now.
            servers: Servers that the job declares.
            budget: The most aggregators of the service.

        Raises:
            UsageError: Never: the job alone exceeds a limit.
            OverLimit: Not now.
        """
        most = self.number_of_aggregators(budget)
        if most is not None and servers > most:
            raise UsageError(f"{subject} may use {most:g} aggregators; this job declares {servers} servers")
        if most is not None and used.aggregators + servers > most + 1e-6:
            raise OverLimit(
                f"{subject} may use {most:g} aggregators: {used.aggregators:.3g} are used, and this job needs {servers}"
            )
        if self.jobs is not None and used.jobs >= self.jobs:
            raise OverLimit(f"{subject} may have {self.jobs} jobs: {used.jobs} are registered")

    def check_bytes(self, subject: str, used: int, added: int) -> None:
        """Check that the tensors of a job are allowed. Raises UsageError."""
        if self.bytes is not None and used + added > self.bytes:
            raise UsageError(
                f"{subject} may have tensors of {self.bytes} bytes: {used} are used, and this job needs {added}"
            )


UNLIMITED_USE = UseLimits()


def parsed_limits(value: Any, complain: Callable[[str], UsageError]) -> UseLimits:
    """Return the limits of a JSON object.

    Args:
        value: The object.
        complain: Returns the error for what is wrong.

    Raises:
        UsageError: It is none, or has another key or value.
    """
    names = [each.name for each in fields(UseLimits)]
    if not isinstance(value, dict) or value.keys() - set(names):
        raise complain(f"is no object of {', '.join(names)}")
    for name, number in value.items():
        allowed = (int, float) if name == "aggregators" else int
        if isinstance(number, bool) or not isinstance(number, allowed) or not 0 < number < float("inf"):
            raise complain(
                f"{name} = {number!r}; give {'a number' if name == 'aggregators' else 'a whole number'} above 0"
            )
    return UseLimits(**value)
