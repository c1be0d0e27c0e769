"""Print a donor's statistics as JSON; {} where it does not answer.

python donor_statistics.py ADDRESS SERVICE_KEY
"""

from __future__ import annotations

import json
import sys

from tiresias.errors import Unavailable
from tiresias.services.remote_memory.messages.donor_messages import ReadDonorStatistics
from tiresias.services.wire.channel import Channel
from tiresias.services.wire.peer_identity import service_identity


def main(address: str, service_key: str) -> None:
    """Ask and print."""
    try:
        channel = Channel.connect(address, service_identity("test"), bytes.fromhex(service_key), 10)
    except Unavailable:
        print("{}")
        return
    print(json.dumps(channel.request(ReadDonorStatistics()).statistics))
    channel.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
