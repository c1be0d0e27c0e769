"""What rank 0 declares of a tensor, checked: its name, shape, dtype and optimizer."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, NamedTuple

import numpy as np

from tiresias.errors import UsageError
from tiresias.services.parameter_service.aggregator.optimizer_kernels import DTYPES, OptimizerSpec, optimizer_spec
from tiresias.services.parameter_service.messages.agent_messages import InitTensor

MAX_NAME_LETTERS = 512
MAX_ELEMENTS = 1 << 31


class TensorDeclaration(NamedTuple):
    """A tensor of a job.

    Attributes:
        tensor: Its name.
        shape: Its sizes.
        dtype: "float32" or "float64".
        spec: Its optimizer.
    """

    tensor: str
    shape: tuple[int, ...]
    dtype: str
    spec: OptimizerSpec

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype in NumPy."""
        return DTYPES[self.dtype]

    @property
    def bytes(self) -> int:
        """The bytes of the parameters, and of a gradient."""
        return self.elements * self.numpy_dtype.itemsize

    @property
    def file_name(self) -> str:
        """A name without letters of the tensor's own."""
        return hashlib.sha256(self.tensor.encode()).hexdigest()[:32]

    def to_json(self) -> str:
        """Return the declaration as JSON."""
        return json.dumps(self.to_object())

    def to_object(self) -> dict[str, Any]:
        """Return the declaration as a JSON object."""
        return {
            "tensor": self.tensor,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "optimizer": self.spec.name,
            "options": self.spec.options,
        }


def declared(content: InitTensor) -> TensorDeclaration:
    """Check a declaration.

    Raises:
        UsageError: Something is not supported; one line.
    """
    if not 0 < len(content.tensor) <= MAX_NAME_LETTERS:
        raise UsageError(f"a tensor's name has 1 to {MAX_NAME_LETTERS} letters")
    if content.dtype not in DTYPES:
        raise UsageError(f"{content.tensor}: dtype {content.dtype[:40]}; available: {', '.join(DTYPES)}")
    if len(content.shape) > 32 or not 0 < math.prod(content.shape) <= MAX_ELEMENTS:
        raise UsageError(
            f"{content.tensor}: a tensor has up to 32 sizes and 1 to {MAX_ELEMENTS} elements; larger ones are pushed in blocks"
        )
    return TensorDeclaration(
        content.tensor, content.shape, content.dtype, optimizer_spec(content.optimizer, content.options)
    )


def declaration_of(value: object) -> TensorDeclaration:
    """Check a declaration that is a JSON object.

    Raises:
        UsageError: It is none.
    """
    try:
        assert isinstance(value, dict)
        shape = tuple(int(size) for size in value["shape"])
        options = {str(name): float(number) for name, number in value["options"].items()}
        content = InitTensor(str(value["tensor"]), shape, str(value["dtype"]), str(value["optimizer"]), options)
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError("a malformed declaration of a tensor") from error
    return declared(content)
