"""Credentials by the munged of a private cluster: only the service account decodes a key, once, with the uid of its sender."""

from __future__ import annotations

import pytest

from tiresias.sandbox.cluster import Cluster
from tiresias.services.wire.munge_credential import CredentialRefused, decode_credential

HERE = "/opt/tiresias/tests/services/parameter_service"
KEY = "0a0d0a0a" + "00ff" * 14  # newlines as the payload's first bytes


def uid_of(cluster: Cluster, user: str) -> str:
    return cluster.run(["id", "-u", user]).stdout.strip()


def decoded(cluster: Cluster, credential: str, user: str) -> str:
    command = ["sh", "-c", f"printf %s '{credential}' | python3 {HERE}/decode.py"]
    return cluster.run(command, user=user).stdout.strip()


@pytest.mark.sandbox
def test_a_key_is_read_by_the_service_account_only_and_once(cluster: Cluster) -> None:
    service, sender = "bob", "alice"
    command = ["python3", f"{HERE}/encode.py", uid_of(cluster, service), KEY]
    credential = cluster.run(command, user=sender).stdout.strip()
    assert decoded(cluster, credential, sender).startswith("refused:")
    assert decoded(cluster, credential, service) == f"{uid_of(cluster, sender)} {KEY}"
    assert decoded(cluster, credential, service).startswith("refused:"), "a replayed credential"
    assert decoded(cluster, credential[:-20] + ":", service).startswith("refused:")


@pytest.mark.parametrize("text", ["", "MUNGE:", "MUNGE:a b:", "MUNGE:aa:\nMUNGE:aa:", "MUNGE:" + "a" * 9000 + ":"])
def test_what_is_no_credential_is_refused(text: str) -> None:
    with pytest.raises(CredentialRefused, match="no munge credential"):
        decode_credential(text)
