"""tsbatch --remote-mem: the options of sbatch that it becomes; tests/services/remote_memory/job_swap has it on a real Slurm."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tiresias.errors import UsageError
from tiresias.protocol.environment import ELASTIC, REMOTE_MEMORY
from tiresias.wrappers import remote_memory_request


@pytest.mark.parametrize(
    ("text", "asked", "extra", "licenses"),
    [
        ("64G", {"nodes": "2"}, "remote-mem=65536M", "remote_memory:128"),
        ("64g:node", {"N": "2-2", "n": "8"}, "remote-mem=65536M", "remote_memory:128"),
        ("500", {}, "remote-mem=500M", "remote_memory:1"),
        ("100K", {}, "remote-mem=1M", "remote_memory:1"),
        ("1T", {"gpus": "a100:1"}, "remote-mem=1048576M", "remote_memory:1024"),
        ("8G:task", {"n": "4", "nodes": "1"}, "remote-mem=32768M", "remote_memory:32"),
        ("8G:task", {"nodes": "3", "ntasks-per-node": "4"}, "remote-mem=32768M", "remote_memory:96"),
        ("8G:task", {}, "remote-mem=8192M", "remote_memory:8"),
        ("1G", {"extra": "run=7", "licenses": "matlab:2"}, "run=7,remote-mem=1024M", "matlab:2,remote_memory:1"),
        ("1G", {"L": "matlab"}, "remote-mem=1024M", "matlab,remote_memory:1"),
    ],
)
def test_the_memory_of_a_node_and_of_the_whole_job(
    text: str, asked: Mapping[str, str], extra: str, licenses: str
) -> None:
    found = remote_memory_request.options({REMOTE_MEMORY: text}, asked)
    assert found == (f"--extra={extra}", f"--licenses={licenses}")


@pytest.mark.parametrize("text", ["0", "-1G", "1.5G", "G", "64GB", "1G:gpu", "1G,remote-mem=2G", "9999999999", "١G"])
def test_what_is_no_size_is_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"--remote-mem=.* is not possible; state a size above 0"):
        remote_memory_request.check({REMOTE_MEMORY: text})


@pytest.mark.parametrize(
    ("text", "env", "asked", "message"),
    [
        ("1G", {}, {"nodes": "1-4"}, "state their number, such as --nodes=2"),
        ("1G", {}, {"n": "8"}, "state their number, such as --nodes=2"),
        ("1G", {}, {"gpus": "8"}, "state their number, such as --nodes=2"),
        ("1G:task", {}, {"nodes": "2", "n": "8"}, "state --ntasks-per-node, or write N:node"),
        ("1G", {ELASTIC: "1-8"}, {"nodes": "1"}, "contradicts --elastic"),
        ("1G", {}, {"licenses": "a|b"}, "has alternatives"),
    ],
)
def test_what_is_not_known_before_the_start_is_refused(
    text: str, env: Mapping[str, str], asked: Mapping[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message.replace("|", r"\|")):
        remote_memory_request.options({REMOTE_MEMORY: text, **env}, asked)


def test_without_a_request_nothing_is_added() -> None:
    assert remote_memory_request.options({}, {"nodes": "1-4", "n": "8"}) == ()
