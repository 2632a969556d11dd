"""The order of packed weights, against an unpacker written apart, and back."""

from __future__ import annotations

from typing import Any

import pytest
from forms_in_numpy import in_order as placed
from four_bits import place

from hexcute_core.errors import LaunchError

torch = pytest.importorskip("torch")
from packed_forms import packed_as  # noqa: E402

from hexcute_kernels.moe import (  # noqa: E402
    pack,
    pack_bytes,
    pack_e4m3,
    pack_experts,
    pack_mxfp4,
    unpack,
)
from hexcute_kernels.moe.packing import (  # noqa: E402
    GROUPS,
    check_packed,
    fields_of,
    packed_shape,
    some_columns,
    some_rows,
)


def quantized(*shape: int, group: int = 128) -> tuple[Any, Any, Any]:
    """q of this shape, its scales and its zero points."""
    torch.manual_seed(0)
    *batch, k, n = shape
    q = torch.randint(0, 16, shape, dtype=torch.uint8)
    scale = torch.rand((*batch, k // group, n)).half()
    return q, scale, torch.randint(0, 16, scale.shape, dtype=torch.uint8)


SHAPES = [(128, 64), (384, 192), (3, 256, 128), (2, 3, 256, 128)]


@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_number_has_its_place(shape: tuple[int, ...], group: int) -> None:
    q, scale, zero = quantized(*shape, group=group)
    *batch, k, n = shape
    w = pack(q, scale, zero)
    assert w.shape == (*batch, k // group, n + 8 * n // group, group // 2) and w.is_contiguous()
    parts = 128 // group
    blocks = w.view(*batch, k // 128, n + parts * n // 16, 64)
    for i in range(0, k, 7):
        byte, shift = place(i % 128)
        assert torch.equal(blocks[..., i // 128, :n, byte] >> shift & 15, q[..., i, :])
    halves = blocks.view(torch.float16).flatten(-2)
    for p in range(parts):
        at = n * (32 + 2 * p)
        assert torch.equal(halves[..., at : at + n], scale[..., p::parts, :])
        assert torch.equal(halves[..., at + n : at + 2 * n], zero[..., p::parts, :].half() + 1024)


@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_there_and_back(shape: tuple[int, ...], group: int) -> None:
    numbers = quantized(*shape, group=group)
    assert all(torch.equal(a, b) for a, b in zip(unpack(pack_experts(*numbers)), numbers))


@pytest.mark.parametrize("group", [256, 768])
def test_wider_groups_are_groups_of_128(group: int) -> None:
    q, scale, zero = quantized(768, 64, group=group)
    each = [t.repeat_interleave(group // 128, 0) for t in (scale, zero)]
    assert torch.equal(pack(q, scale, zero), pack(q, *each))


@pytest.mark.parametrize("group", [32, 64, 128])
def test_parts_are_what_packing_parts_gives(group: int) -> None:
    q, scale, zero = quantized(2, 512, 256, group=group)
    w = pack(q, scale, zero)
    ranges = [(192, 256), (64, 128)]
    columns = [torch.cat([t[..., a:b] for a, b in ranges], -1) for t in (q, scale, zero)]
    assert torch.equal(some_columns(w, ranges), pack(*columns))
    ranges = [(384, 512), (0, 128)]
    rows = [
        torch.cat([t[:, a // each : b // each] for a, b in ranges], 1)
        for t, each in ((q, 1), (scale, group), (zero, group))
    ]
    assert torch.equal(some_rows(w, ranges), pack(*rows))


def test_a_shape_says_how_weights_are_grouped() -> None:
    """No tensor of one size of groups has the shape of another, whatever its columns are."""
    shapes = [packed_shape(512, n, group) for n in range(64, 4096, 64) for group in GROUPS]
    assert len(set(shapes)) == len(shapes)


def test_what_cannot_be_is_told() -> None:
    q, scale, zero = quantized(256, 64)
    for args, words in (
        ((q[:200], scale, zero), "k a multiple of 128"),
        ((q[:, :40], scale, zero), "n of 64"),
        ((q, scale, zero[:1]), r"to be \(2, 64\)"),
        ((q, scale[:, :32], zero), r"to be \(2, 64\)"),
        ((q, scale[0], zero), r"to be \(2, 64\)"),
        ((q, scale.repeat(8, 1), zero.repeat(8, 1)), "groups of 32, 64 or a multiple of 128"),
        ((q, scale.float(), zero), "float16 scale"),
        ((q + 1, scale, zero), "q holds 16"),
        ((q, scale, zero + 16), "zero holds"),
    ):
        with pytest.raises(LaunchError, match=words):
            pack(*args)
    with pytest.raises(LaunchError, match="what hexcute_kernels.moe.pack"):
        unpack(q)
    w = pack(q, scale, zero)
    for args, words in (
        ((some_columns, w, [(0, 32)]), "within 64 columns and end at multiples of 64"),
        ((some_rows, w, [(0, 384)]), "within 256 rows and end at multiples of 128"),
        ((some_rows, w, [(64, 128)]), "end at multiples of 128"),
        ((unpack, w[..., :-1, :]), "what hexcute_kernels.moe.pack|kernels' order"),
        ((unpack, w.view(4, 34, 64)), "kernels' order"),
        ((unpack, w.view(torch.int16)), "kernels' order"),
    ):
        with pytest.raises(LaunchError, match=words):
            args[0](*args[1:])


@pytest.mark.parametrize(("form", "group"), [("u8", 64), ("u8", 32), ("e4m3", 64), ("e2m1", 32)])
def test_other_forms_have_their_places_and_come_back(form: str, group: int) -> None:
    w, (fields, strips) = packed_as(form, 2, 256, 128, group=group)
    want = torch.from_numpy(placed(form, fields, strips))
    assert torch.equal(w.view(torch.uint8).flatten(), want.flatten())
    found = check_packed("w", "w", w)
    assert (found.held.form.name, found.held.group, found.n, found.k) == (form, group, 128, 256)
    back, halves = fields_of(w)
    assert torch.equal(back, torch.from_numpy(fields))
    assert all(torch.equal(a, torch.from_numpy(b)) for a, b in zip(halves, strips, strict=True))
    for part, at in ((some_columns(w, [(64, 128)]), (..., slice(64, 128))),
                     (some_rows(w, [(128, 256)]), (slice(None), slice(128, 256)))):  # fmt: skip
        assert part.dtype == w.dtype and torch.equal(fields_of(part)[0], back[at])


def test_signed_bytes_are_those_from_zero_less_128() -> None:
    q = torch.arange(-128, 128, dtype=torch.int8).repeat_interleave(64).reshape(256, 64)
    scale, zero = torch.ones(4, 64).half(), torch.full((4, 64), -3, dtype=torch.int8)
    shifted = [(t.short() + 128).to(torch.uint8) for t in (q, zero)]
    assert torch.equal(pack_bytes(q, scale, zero), pack_bytes(shifted[0], scale, shifted[1]))
    none = torch.full((4, 64), 128, dtype=torch.uint8)
    assert torch.equal(pack_bytes(q, scale), pack_bytes(shifted[0], scale, none))
    assert torch.equal(pack_bytes(q, scale[:2]), pack_bytes(q, scale))


def test_what_other_forms_cannot_be_is_told() -> None:
    q, half = torch.zeros(128, 64, dtype=torch.uint8), torch.ones(2, 64).half()
    nan = torch.full((128, 64), 127, dtype=torch.uint8).view(torch.float8_e4m3fn)
    for call, words in (
        (lambda: pack_bytes(q.int(), half), "int8 or uint8"),
        (lambda: pack_bytes(q, half.float()), "float16 scale"),
        (lambda: pack_bytes(q[:32], half), "multiple of 64"),
        (lambda: pack_bytes(q, torch.ones(8, 64).half()), "groups of 32 or a multiple of 64"),
        (lambda: pack_e4m3(q, half), "float8_e4m3fn"),
        (lambda: pack_e4m3(nan, half), "holds NaN"),
        (lambda: pack_mxfp4(q + 16, torch.full((4, 64), 127, dtype=torch.uint8)), "from 0 to 15"),
        (lambda: pack_mxfp4(q, torch.full((4, 64), 90, dtype=torch.uint8)), "103 to 142, got 90"),
        (lambda: pack_mxfp4(q, half), "exponents"),
        (lambda: unpack(pack_e4m3(q.view(torch.float8_e4m3fn), half)), "of four bits"),
    ):
        with pytest.raises(LaunchError, match=words):
            call()
