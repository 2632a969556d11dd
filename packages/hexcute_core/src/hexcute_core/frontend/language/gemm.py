"""gemm(c, a, b): c += a b^T, at once or asynchronously, and the wait for the asynchronous ones."""

from __future__ import annotations

from hexcute_core.dtypes import boolean
from hexcute_core.frontend.language.builder import Builder, current
from hexcute_core.frontend.language.subscript import static_int
from hexcute_core.frontend.language.tileops import register_of, tile_of
from hexcute_core.frontend.language.tiles import Tile, describe
from hexcute_core.scalar import Scalar, ScalarBase, as_scalar, is_const
from hexcute_core.scalar import cast as cast_scalar
from hexcute_core.tile import Fill, Gemm, GemmWait, GlobalView, If, Stmt
from hexcute_core.tile.accesses import may_overlap


def gemm(
    c: object,
    a: object,
    b: object,
    warps: tuple[int, int] | None = None,
    asynchronous: bool = False,
    accumulate: object = True,
) -> None:
    """c[i, j] += sum over k of a[i, k] * b[j, k], with c (M, N) in registers, a (M, K), b (N, K).

    a and b are registers, or b and possibly a shared memory, where warp groups multiply (sm_90).
    `warps` forces the arrangement of warps, or warp groups (along M, along N). An `asynchronous`
    gemm returns at once: `hx.wait_gemm` before c is touched or the operands change. Where
    `accumulate` is false, c becomes the product alone: it needs no `hx.fill` before.
    """
    builder = current("hx.gemm")
    tiles = [register_of(c, "hx.gemm"), *(_operand(value) for value in (a, b))]
    if tiles[1].in_registers < tiles[2].in_registers or (asynchronous and tiles[2].in_registers):
        raise builder.error(
            "hx.gemm with b in registers and "
            + ("asynchronous" if asynchronous else "a in shared memory"),
            fix="give b in shared memory",
        )
    shapes = [tile.shape for tile in tiles]
    named = "c {}, a {}, b {}".format(*(describe(tile) for tile in tiles))
    if any(len(shape) != 2 for shape in shapes):
        raise builder.error(
            f"hx.gemm takes tiles of two modes: {named}", fix="index the other modes by integers"
        )
    (m, n), (am, ak), (bn, bk) = shapes
    if (m, n, ak) != (am, bn, bk):
        raise builder.error(
            f"hx.gemm shapes do not agree: {named}", fix="c is (M, N), a is (M, K), b is (N, K)"
        )
    if tiles[1].dtype != tiles[2].dtype:
        raise builder.error(
            f"hx.gemm operands have different element types: {named}", fix="cast one of them"
        )
    if warps is not None:
        arranged = tuple(warps) if isinstance(warps, (tuple, list)) else ()
        counts = [static_int(count) for count in arranged]
        if len(counts) != 2 or any(count is None or count < 1 for count in counts):
            raise builder.error(
                f"warps must be two positive ints (along M, along N), got {warps!r}",
                fix="write hx.gemm(c, a, b, warps=(2, 2))",
            )
        warps = (counts[0] or 1, counts[1] or 1)
    c_ref, a_ref, b_ref = (tile.ref for tile in tiles)
    onto = _accumulates(builder, accumulate)
    if tiles[2].in_registers and not is_const(onto, True):
        # Instructions on registers always add: what c holds is set to zero before.
        zero = cast_scalar(as_scalar(0), tiles[0].dtype)
        fill: Stmt = Fill(builder.next_id(), c_ref, zero, builder.span)
        builder.emit(fill if is_const(onto) else If(onto, (), (fill,), builder.span))
        onto = as_scalar(True)
    for tile in tiles[1:]:
        if tile.ref.tensor == c_ref.tensor and may_overlap(tile.ref, c_ref):
            raise builder.error(
                f"hx.gemm adds to {describe(tiles[0])} while it reads {describe(tile)} of the same "
                "tensor, which may overlap",
                fix="copy what it reads to a tile of its own: hx.copy(a, q)",
            )
    number, span = builder.next_id(), builder.span
    builder.emit(Gemm(number, c_ref, a_ref, b_ref, span, warps, asynchronous, onto))


def _accumulates(builder: Builder, value: object) -> Scalar:
    """The condition under which a gemm adds to what is there: one for all threads."""
    onto = as_scalar(value) if isinstance(value, (bool, ScalarBase)) else None
    if onto is None or onto.dtype != boolean:
        raise builder.error(
            f"accumulate is true or false, or a condition, got {describe(value)}",
            fix="write hx.gemm(c, a, b, accumulate=i > 0)",
        )
    if builder.varies(onto):
        raise builder.error(
            f"accumulate={onto} depends on the thread",
            fix="make it depend on the block or the role alone",
        )
    return builder.stable(onto, "onto")


def _operand(value: object) -> Tile:
    """A gemm's operand: registers or shared memory."""
    tile = tile_of(value, "hx.gemm")
    if isinstance(tile.tensor, GlobalView):
        raise current("hx.gemm").error(
            f"hx.gemm cannot read {describe(tile)}",
            fix="copy it to a shared or register tensor first",
        )
    if tile.ref.rank is not None:
        raise current("hx.gemm").error(
            f"hx.gemm reads this block's own memory, got {describe(tile)}",
            fix="copy it to a register tensor first",
        )
    return tile


def wait_gemm(pending: int = 0) -> None:
    """Waits until at most `pending` of the latest asynchronous gemms are unfinished."""
    builder = current("hx.wait_gemm")
    count = static_int(pending)
    if count is None or count < 0:
        raise builder.error(
            f"hx.wait_gemm takes a number known at compile time, got {pending}",
            fix="write hx.wait_gemm(1)",
        )
    builder.emit(GemmWait(count, builder.span))
