"""What a client states to be: a rank of a job's run, or a part of the service.

job:NAME:RANK:RUN     an agent; its key is the job's
service:NAME          the manager or another aggregator; its key is the service's
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tiresias.services.wire.frames import BadFrame

JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_AGENT = re.compile(rf"job:({JOB_NAME.pattern}):(\d{{1,6}}):(\d{{1,9}})")
_SERVICE = re.compile(rf"service:({JOB_NAME.pattern})")


class PeerIdentity(NamedTuple):
    """A parsed identity.

    Attributes:
        job: The job's name; "" for a part of the service.
        name: The name of the part of the service; "" for an agent.
        rank: The agent's rank.
        run: How often the job was started before: 0 for the first run.
    """

    job: str
    name: str
    rank: int
    run: int

    def __str__(self) -> str:
        return f"job:{self.job}:{self.rank}:{self.run}" if self.job else f"service:{self.name}"


def agent_identity(job: str, rank: int, run: int) -> PeerIdentity:
    """Return the identity of an agent."""
    return parsed_identity(f"job:{job}:{rank}:{run}")


def service_identity(name: str) -> PeerIdentity:
    """Return the identity of the manager or of an aggregator."""
    return parsed_identity(f"service:{name}")


def parsed_identity(text: str) -> PeerIdentity:
    """Parse an identity.

    Raises:
        BadFrame: It is none.
    """
    if found := _AGENT.fullmatch(text):
        return PeerIdentity(found[1], "", int(found[2]), int(found[3]))
    if found := _SERVICE.fullmatch(text):
        return PeerIdentity("", found[1], 0, 0)
    raise BadFrame(
        f"no identity of a client: {text[:100]!r}; a job's name has up to 64 letters, digits, '.', '_' and '-'"
    )
