"""The tensors of the ten models of Table 6, from their architectures: bytes of each, in the order of the layers.

Batch normalization has four vectors a convolution (scale, offset, mean, variance), as in the paper's TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

FLOAT = 4
Conv = tuple[int, int, int]  # kernel area, channels in, channels out


def tensors(name: str) -> list[int]:
    return [FLOAT * each for each in _MODELS[name]()]


def _biased(layers: Iterator[Conv] | list[Conv]) -> Iterator[int]:
    for area, inward, outward in layers:
        yield from (area * inward * outward, outward)


def _normalized(layers: Iterator[Conv] | list[Conv]) -> Iterator[int]:
    for area, inward, outward in layers:
        yield from (area * inward * outward, *[outward] * 4)


def _plain(layers: Iterator[Conv] | list[Conv]) -> Iterator[int]:
    """Inception's convolutions have no scale."""
    for area, inward, outward in layers:
        yield from (area * inward * outward, *[outward] * 3)


def _dense(*widths: int) -> Iterator[int]:
    yield from _biased([(1, a, b) for a, b in pairwise(widths)])


def _vgg(groups: tuple[int, ...]) -> Iterator[int]:
    inward = 3
    for convolutions, outward in zip(groups, (64, 128, 256, 512, 512), strict=True):
        for _ in range(convolutions):
            yield from _biased([(9, inward, outward)])
            inward = outward
    yield from _dense(512 * 7 * 7, 4096, 4096, 1000)


def _alexnet() -> Iterator[int]:
    yield from _biased([(121, 3, 64), (25, 64, 192), (9, 192, 384), (9, 384, 384), (9, 384, 256)])
    yield from _dense(256 * 6 * 6, 4096, 4096, 1000)


def _resnet(groups: tuple[int, ...]) -> Iterator[int]:
    yield from _normalized([(49, 3, 64)])
    inward = 64
    for blocks, width in zip(groups, (64, 128, 256, 512), strict=True):
        for block in range(blocks):
            yield from _normalized([(1, inward, width), (9, width, width), (1, width, 4 * width)])
            if block == 0:
                yield from _normalized([(1, inward, 4 * width)])
            inward = 4 * width
    yield from _dense(2048, 1000)


def _chain(inward: int, *steps: tuple[int, int]) -> Iterator[Conv]:
    """Of (kernel area, channels out)."""
    for area, outward in steps:
        yield area, inward, outward
        inward = outward


def _googlenet() -> Iterator[int]:
    modules = [
        (192, 64, 96, 128, 16, 32, 32),
        (256, 128, 128, 192, 32, 96, 64),
        (480, 192, 96, 208, 16, 48, 64),
        (512, 160, 112, 224, 24, 64, 64),
        (512, 128, 128, 256, 24, 64, 64),
        (512, 112, 144, 288, 32, 64, 64),
        (528, 256, 160, 320, 32, 128, 128),
        (832, 256, 160, 320, 32, 128, 128),
        (832, 384, 192, 384, 48, 128, 128),
    ]
    yield from _biased(_chain(3, (49, 64), (1, 64), (9, 192)))
    for inward, one, three_in, three, five_in, five, pool in modules:
        for branch in ([(1, one)], [(1, three_in), (9, three)], [(1, five_in), (25, five)], [(1, pool)]):
            yield from _biased(_chain(inward, *branch))
    yield from _dense(1024, 1000)


def _inception3() -> Iterator[int]:
    yield from _plain(_chain(3, (9, 32), (9, 32), (9, 64), (1, 80), (9, 192)))
    for inward, pool in ((192, 32), (256, 64), (288, 64)):
        yield from _module(inward, [(1, 64)], [(1, 48), (25, 64)], [(1, 64), (9, 96), (9, 96)], [(1, pool)])
    yield from _module(288, [(9, 384)], [(1, 64), (9, 96), (9, 96)])
    for width in (128, 160, 160, 192):
        deep = [(1, width), (7, width), (7, width), (7, width), (7, 192)]
        yield from _module(768, [(1, 192)], [(1, width), (7, width), (7, 192)], deep, [(1, 192)])
    yield from _module(768, [(1, 192), (9, 320)], [(1, 192), (7, 192), (7, 192), (9, 192)])
    for inward in (1280, 2048):
        yield from _module(inward, [(1, 320)], [(1, 384), (3, 384)], [(1, 448), (9, 384), (3, 384)], [(1, 192)])
        yield from _plain([(3, 384, 384), (3, 384, 384)])  # the branches fork at their ends
    yield from _dense(2048, 1000)


def _inception4() -> Iterator[int]:
    yield from _plain(_chain(3, (9, 32), (9, 32), (9, 64), (9, 96)))
    yield from _module(160, [(1, 64), (9, 96)], [(1, 64), (7, 64), (7, 64), (9, 96)])
    yield from _plain([(9, 192, 192)])
    for _ in range(4):
        yield from _module(384, [(1, 96)], [(1, 64), (9, 96)], [(1, 64), (9, 96), (9, 96)], [(1, 96)])
    yield from _module(384, [(9, 384)], [(1, 192), (9, 224), (9, 256)])
    for _ in range(7):
        deep = [(1, 192), (7, 192), (7, 224), (7, 224), (7, 256)]
        yield from _module(1024, [(1, 384)], [(1, 192), (7, 224), (7, 256)], deep, [(1, 128)])
    yield from _module(1024, [(1, 192), (9, 192)], [(1, 256), (7, 256), (7, 320), (9, 320)])
    for _ in range(3):
        deep = [(1, 384), (3, 448), (3, 512), (3, 256)]
        yield from _module(1536, [(1, 256)], [(1, 384), (3, 256)], deep, [(1, 256)])
        yield from _plain([(3, 384, 256), (3, 512, 256)])  # the branches fork at their ends
    yield from _dense(1536, 1000)


def _module(inward: int, *branches: list[tuple[int, int]]) -> Iterator[int]:
    for branch in branches:
        yield from _plain(_chain(inward, *branch))


_MODELS = {
    "vgg19": lambda: _vgg((2, 2, 4, 4, 4)), "vgg16": lambda: _vgg((2, 2, 3, 3, 3)), "vgg11": lambda: _vgg((1, 1, 2, 2, 2)),
    "alexnet": _alexnet, "resnet152": lambda: _resnet((3, 8, 36, 3)), "resnet101": lambda: _resnet((3, 4, 23, 3)),
    "resnet50": lambda: _resnet((3, 4, 6, 3)), "inception4": _inception4, "inception3": _inception3, "googlenet": _googlenet,
}  # fmt: skip
