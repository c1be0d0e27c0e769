"""The client's proof of its user: a munge credential that is bound to the connection."""

from __future__ import annotations

from tiresias.services.remote_memory.messages.donor_messages import ProveUser
from tiresias.services.wire.channel import Channel, ConnectionLost
from tiresias.services.wire.munge_credential import encode_credential
from tiresias.services.wire.session_messages import Accepted, Refused


def prove_user(channel: Channel) -> None:
    """Prove to a donor the user of this process.

    Raises:
        ConnectionLost: The donor does not accept it.
        Unavailable: munged does not answer.
    """
    answer = channel.request(ProveUser(encode_credential(channel.binding.encode())))
    if not isinstance(answer, Accepted):
        reason = answer.text if isinstance(answer, Refused) else f"{type(answer).__name__} in place of Accepted"
        raise ConnectionLost(f"{channel.address}: {reason}")
