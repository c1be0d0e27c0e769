"""How gradients and parameters of one tensor are transferred: as they are, or compressed where its job has chosen that."""

from __future__ import annotations

from tiresias.services.parameter_service.aggregator.optimizer_kernels import Array
from tiresias.services.parameter_service.aggregator.tensor_declaration import TensorDeclaration
from tiresias.services.wire.channel import Buffer
from tiresias.services.wire.shuffled_payload import COMPRESS_NONE, most_packed_bytes, packed, unpack


def gradient_buffers(workers: int, compress: str) -> int:
    """Return how many times the bytes of a tensor its transfers need: a gradient of each rank; with compression also what is
    received of each rank, the answer and its planes.
    """
    return workers if compress == COMPRESS_NONE else 2 * workers + 2


class GradientTransfers:
    """The gradients of one tensor as they are received, and its parameters as they are sent.

    Args:
        compress: The choice of its job.
        declaration: The tensor.
    """

    def __init__(self, compress: str, declaration: TensorDeclaration) -> None:
        self._compress, self._declaration = compress, declaration
        self._answer: tuple[int, list[Buffer] | None] = (-1, None)

    def problem(self, rank: int, compress: str, payload_bytes: int) -> str:
        """Return why a push cannot be received, "" where it can; nothing is allocated."""
        declared = self._declaration
        if compress == COMPRESS_NONE and payload_bytes != declared.bytes:
            shape = f"shape {list(declared.shape)}, {declared.dtype}"
            return f"a gradient of {payload_bytes} bytes from rank {rank}; declared: {shape}, {declared.bytes} bytes"
        if compress not in (COMPRESS_NONE, self._compress):
            return f"a gradient compressed by {compress[:40]!r} from rank {rank}; the job is registered with {self._compress!r}"
        if compress != COMPRESS_NONE and payload_bytes > most_packed_bytes(declared.bytes):
            return f"a compressed gradient of {payload_bytes} bytes from rank {rank}; declared: {declared.bytes} bytes"
        return ""

    @staticmethod
    def store(payload: memoryview, gradient: Array) -> None:
        """Unpack a whole payload. Raises BadFrame where it is none of this tensor."""
        unpack(payload, gradient.data.cast("B"))

    def answer(self, version: int, parameters: Array, is_written: bool) -> tuple[str, list[Buffer]]:
        """Return how the parameters of a version are sent, and their buffers; they are packed once for all ranks.

        Args:
            version: Their number of updates.
            parameters: The parameters.
            is_written: Whether they may change before they are sent, so that they are copied.
        """
        data = parameters.data.cast("B")
        if self._compress != COMPRESS_NONE:
            if self._answer[0] != version:
                self._answer = (version, packed(data, parameters.itemsize))
            if self._answer[1]:
                return self._compress, self._answer[1]
        return COMPRESS_NONE, [bytes(data) if is_written else data]

    def forget(self) -> None:
        """Drop the packed parameters: others get their version."""
        self._answer = (-1, None)
