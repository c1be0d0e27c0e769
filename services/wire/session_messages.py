"""The messages of every connection: the handshake, and the plain answers."""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.services.wire.typed_messages import message


@message(1)
@dataclass(frozen=True, slots=True)
class Hello:
    """The client's first message.

    Attributes:
        identity: What it is: peer_identity.py.
        nonce: 64 hexadecimal digits, new for each connection.
    """

    identity: str
    nonce: str


@message(2)
@dataclass(frozen=True, slots=True)
class Challenge:
    """The server's answer to Hello.

    Attributes:
        nonce: Its own, as that of Hello.
        proof: That it has the key.
        protect: What it requires for the frames after the handshake: "none" or "mac".
    """

    nonce: str
    proof: str
    protect: str = "none"


@message(3)
@dataclass(frozen=True, slots=True)
class Proof:
    """The client's proof that it has the key."""

    proof: str


@message(4)
@dataclass(frozen=True, slots=True)
class Accepted:
    """A request was carried out, or a client was authenticated."""

    tensor: str = ""


@message(5)
@dataclass(frozen=True, slots=True)
class Refused:
    """A request was not carried out.

    Attributes:
        code: One word for programs: wire/refusal_codes.py.
        text: One line for people.
        tensor: The tensor of the request, or "".
        step: The step of the request, or 0.
    """

    code: str
    text: str
    tensor: str = ""
    step: int = 0
