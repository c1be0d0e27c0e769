"""Where a job's tensors are placed at first, and where to ask for one that has moved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tiresias.services.parameter_service.agent.service_job import read_job_file


class TensorDirectory(Protocol):
    """The manager's table, or a file."""

    def assign(self, sizes: Mapping[str, int]) -> dict[str, str]:
        """Return the address of each tensor of the job, given the bytes of each. Every rank gets the same answer."""
        ...

    def addresses(self) -> list[str]:
        """Return the aggregators that may have a tensor which is not where it was."""
        ...

    def is_complete(self) -> bool:
        """Return whether the last `addresses` were all aggregators that may have a tensor of the job."""
        ...


class FileDirectory:
    """The aggregators of a job file; the tensors are spread evenly by bytes, in descending order of size.

    Args:
        file: The job file.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def assign(self, sizes: Mapping[str, int]) -> dict[str, str]:
        """Return the address of each tensor."""
        content = read_job_file(self._file)
        loads = dict.fromkeys(content["aggregators"], 0)
        chosen = dict(content.get("tensors", {}))
        for name, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
            address = chosen.setdefault(name, min(loads, key=lambda each: loads[each]))
            loads[address] = loads.get(address, 0) + size
        return {name: chosen[name] for name in sizes}

    def addresses(self) -> list[str]:
        """Return every address of the file, which is read anew."""
        content = read_job_file(self._file)
        return list(dict.fromkeys([*content["aggregators"], *content.get("tensors", {}).values()]))

    def is_complete(self) -> bool:
        """Return False: a tensor may have moved to an aggregator that the file does not name."""
        return False
