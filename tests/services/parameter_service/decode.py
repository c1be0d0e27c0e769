"""Print the uid and the payload of the credential on standard input, or why it is refused."""

import sys

from tiresias.services.wire.munge_credential import CredentialRefused, decode_credential

try:
    uid, payload = decode_credential(sys.stdin.read().strip())
except CredentialRefused as error:
    print("refused:", error)
else:
    print(uid, payload.hex())
