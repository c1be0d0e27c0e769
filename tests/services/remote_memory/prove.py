"""A client that asks a donor for its free memory. Prints the answer, or why there is none.

    python prove.py ADDRESS SERVICE_KEY JOB MUNGE

MUNGE: 1 proves the user before.
"""

from __future__ import annotations

import sys

from tiresias.errors import TiresiasError
from tiresias.services.remote_memory.client.user_proof import prove_user
from tiresias.services.remote_memory.messages.donor_messages import FreeMemory, QueryMemory
from tiresias.services.remote_memory.messages.job_key import job_key
from tiresias.services.wire.channel import Channel
from tiresias.services.wire.peer_identity import agent_identity


def main(address: str, service_key: str, job: str, munge: str) -> None:
    """Connect and ask."""
    try:
        channel = Channel.connect(address, agent_identity(job, 0, 0), job_key(bytes.fromhex(service_key), job), 20)
        if munge == "1":
            prove_user(channel)
        answer = channel.request(QueryMemory(1))
    except TiresiasError as error:
        print(f"refused: {error}")
        return
    channel.close()
    print("free" if isinstance(answer, FreeMemory) else f"refused: {answer}")


if __name__ == "__main__":
    main(*sys.argv[1:])
