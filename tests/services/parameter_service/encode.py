"""Print a credential: encode.py SERVICE_UID PAYLOAD_IN_HEX."""

import sys

from tiresias.services.wire.munge_credential import encode_credential

print(encode_credential(bytes.fromhex(sys.argv[2]), int(sys.argv[1])))
