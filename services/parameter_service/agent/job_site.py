"""What a job file selects: what places the tensors, in which blocks, and whether iterations are reported."""

from __future__ import annotations

from pathlib import Path

from tiresias.services.parameter_service.agent.iteration_reports import IterationReports
from tiresias.services.parameter_service.agent.manager_directory import ManagerDirectory
from tiresias.services.parameter_service.agent.manager_link import ManagerLink
from tiresias.services.parameter_service.agent.service_job import ServiceJob, read_job_file
from tiresias.services.parameter_service.agent.tensor_directory import FileDirectory, TensorDirectory

_LEAST_BLOCK_BYTES = 8  # an element of float64


class JobSite:
    """The manager of a job, or the aggregators of its file.

    Args:
        job: This process.
    """

    def __init__(self, job: ServiceJob) -> None:
        content = read_job_file(job.file)
        self._job, self._servers = job, int(content.get("servers", 1))
        self._published = Path(content["manager"]) if "manager" in content else None

    def directory(self) -> TensorDirectory:
        """Return what places the tensors."""
        return ManagerDirectory(self._link(self._published)) if self._published else FileDirectory(self._job.file)

    def reports(self) -> IterationReports | None:
        """Return what reports the iterations: on rank 0 of a job with a manager."""
        return IterationReports(self._link(self._published)) if self._published and not self._job.rank else None

    def block_bytes(self, total: int, most: int) -> int:
        """Return the size of the blocks: PAA splits none that is smaller than a server's share of the model.

        Args:
            total: Bytes of all parameters.
            most: The largest block.
        """
        return max(min(most, total // self._servers), _LEAST_BLOCK_BYTES)

    def _link(self, published: Path) -> ManagerLink:
        return ManagerLink(self._job, published)
