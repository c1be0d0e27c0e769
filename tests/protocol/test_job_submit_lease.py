"""The lease of job_submit.lua: what the controller writes is what tsbatch and the Lua hook read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tiresias.protocol.job_submit_lease import JobSubmitLease, parse

HOOK = Path(__file__).parents[2] / "etc/job_submit.lua"
LEASE = JobSubmitLease(1795406400, ("gpu", "a100"), "gpu", 97, ("ada", "eve"), ("deadline",))
TEXT = "1795406400\ngpu,a100\ngpu\n97\nada,eve\ndeadline\n"


def test_the_content_of_the_file() -> None:
    assert LEASE.text() == TEXT
    assert parse(TEXT) == LEASE
    without_leader = JobSubmitLease(1, ("gpu",), "", 37)
    assert without_leader.text() == "1\ngpu\n\n37\n\n\n"
    assert parse(without_leader.text()) == without_leader


@pytest.mark.parametrize("text", ["", "soon\ngpu\n", "1\n2\n3\n", "1\ngpu\ngpu\nlong\n\n\n", "\x00"])
def test_other_content_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(text)


def test_the_pattern_of_the_hook_matches() -> None:
    (pattern,) = re.findall(r'text:match\("(.*)"\)', HOOK.read_text())
    found = re.match(pattern.replace("%d", r"\d").replace("\\n", "\n"), TEXT)
    assert found is not None
    assert found.groups() == ("1795406400", "gpu,a100", "gpu", "97", "ada,eve", "deadline")
