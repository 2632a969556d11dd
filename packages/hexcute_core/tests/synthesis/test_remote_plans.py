"""Tiles of other blocks of a cluster: the laws of the tile program, the instructions that carry a
copy, the layout they share with everybody, and what a wrong solution is told."""

from dataclasses import replace

import cluster_kernels as ck
import pytest
import remote_kernels as rk

from hexcute_core import f16, f32, i8, i32
from hexcute_core.arch import arch
from hexcute_core.errors import VerifyError
from hexcute_core.scalar import Const, Var
from hexcute_core.synthesis.proof.check import check
from hexcute_core.tile import Copy, Gemm
from hexcute_core.tile.verify import verify
from hexcute_core.tile.visit import statements


def remotes(program):
    """Copies that reach into another block."""
    return [
        s
        for s in statements(program.body)
        if isinstance(s, Copy) and (s.src.rank is not None or s.dst.rank is not None)
    ]


def changed(program, op, **refs):
    """`program` with the refs of copy `op` replaced."""

    def body(stmts):
        out = []
        for stmt in stmts:
            if stmt is op:
                stmt = replace(stmt, **refs)
            elif hasattr(stmt, "body"):
                stmt = replace(stmt, body=body(stmt.body))
            elif hasattr(stmt, "then"):
                stmt = replace(stmt, then=body(stmt.then), otherwise=body(stmt.otherwise))
            out.append(stmt)
        return tuple(out)

    return replace(program, body=body(program.body))


def broken(program):
    """(text of the error, program with one law of remote tiles broken)."""
    (op,) = remotes(program)
    place = op.dst.rank
    yield "block 4 of a cluster of 4", changed(program, op, dst=replace(op.dst, rank=Const(4, i32)))
    yield "index `0.5` is a f32", changed(program, op, dst=replace(op.dst, rank=Const(0.5, f32)))
    yield "`q` is used before declared", changed(program, op, dst=replace(op.dst, rank=Var("q")))
    registers = replace(op.src, rank=place)
    yield "of another block is no SharedTensor", changed(program, op, src=registers)
    yield "of another block without a cluster", replace(program, cluster_dim=(1, 1, 1))


@pytest.mark.parametrize("number", range(5))
def test_laws_of_the_tile_program(number):
    text, program = list(broken(rk.ring.compile("sm_90").tile))[number]
    with pytest.raises(VerifyError, match=text):
        verify(program)


def test_only_registers_are_copied_to_another_block():
    program = rk.started.compile("sm_90").tile
    loads = (s for s in statements(program.body) if isinstance(s, Copy) and s.dst.tensor == "here")
    op = next(loads)
    with pytest.raises(VerifyError, match="`view_x` to `here` of another block"):
        verify(changed(program, op, dst=replace(op.dst, rank=Const(0, i32))))


def test_products_read_their_own_memory():
    program = rk.handed_out.compile("sm_90").tile
    op = next(s for s in statements(program.body) if isinstance(s, Gemm))
    with pytest.raises(VerifyError, match="a gemm that reads another block's memory"):
        verify(changed(program, op, a=replace(op.a, rank=Const(0, i32))))


def test_slots_are_not_reached_into():
    program = ck.in_rows.compile("sm_90", REGISTERS=True).tile
    op = next(s for s in statements(program.body) if isinstance(s, Copy) and s.dst.tensor == "ra")
    with pytest.raises(VerifyError, match="`sa`, a slot of `pipe`, is reached into"):
        verify(changed(program, op, src=replace(op.src, rank=Const(0, i32))))


@pytest.mark.parametrize("dtype", [f16, f32, i8])
def test_sixteen_bytes_at_a_time(dtype):
    compiled = rk.exchanged(dtype).compile("sm_90")
    solution = compiled.solution
    check(solution)
    (op,) = remotes(solution.program)
    assert solution.copies[op.id].row.name == "st.cluster.16"
    text = compiled.explain()
    assert "copy r -> remote here: st.cluster.16 x" in text
    assert "copy here -> r: ld.shared.16 x" in text
    assert "ldmatrix" not in text.split("rejected")[0]


def test_one_layout_for_all_who_touch_a_buffer():
    """Products demand a swizzle of the buffer, writers in other blocks write by it."""
    solution = rk.handed_out.compile("sm_90").solution
    check(solution)
    remote = [solution.copies[op.id] for op in remotes(solution.program)]
    assert {plan.row.name for plan in remote} == {"st.cluster.16"}
    assert solution.shared["sa"].swizzle is not None


def test_the_search_is_narrowed_by_name():
    kernel = rk.exchanged(f32)
    narrow = kernel.compile("sm_90", only={"copy r -> remote here": "st.cluster.4"})
    assert "copy r -> remote here: st.cluster.4 x" in narrow.explain()


def test_rows_of_the_table():
    rows = {r.name: r for r in arch("sm_90").copies if "remote" in (r.src, r.dst)}
    assert set(rows) == {f"{op}.cluster.{n}" for op in ("ld", "st") for n in (1, 2, 4, 8, 16)}
    for row in rows.values():
        assert row.access == "vector" and not row.asynchronous
        assert row.timing.source.startswith("bench/results/h100/microbench.csv")
        local = next(
            r for r in arch("sm_90").copies if r.name == row.name.replace("cluster", "shared")
        )
        assert row.timing.issue > local.timing.issue
        assert row.timing.latency > local.timing.latency
    assert not any("remote" in (r.src, r.dst) for r in arch("sm_80").copies)


def wrong_plans(solution):
    """The solution with the remote copy carried by what reaches no other block, and the other way
    round."""
    (op,) = remotes(solution.program)
    far = solution.copies[op.id]
    near = next(i for i, p in solution.copies.items() if p.row.name == "ld.shared.16")
    rows = {r.name: r for r in arch("sm_90").copies}
    yield op.id, replace(far, row=rows["st.shared.16"])
    yield near, replace(solution.copies[near], row=rows["ld.cluster.16"])


@pytest.mark.parametrize("number", [0, 1])
def test_the_proof_tells_own_memory_from_another_block_s(number):
    solution = rk.exchanged(f32).compile("sm_90").solution
    key, plan = list(wrong_plans(solution))[number]
    with pytest.raises(VerifyError, match="moves .*, the copy goes "):
        check(replace(solution, copies={**solution.copies, key: plan}))


def test_the_proof_lets_no_one_else_reach_out():
    solution = rk.handed_out.compile("sm_90").solution
    program = solution.program
    op = next(s for s in statements(program.body) if isinstance(s, Gemm))
    far = changed(program, op, b=replace(op.b, rank=Const(0, i32)))
    with pytest.raises(VerifyError, match="`sb` of another block is no operand here"):
        check(replace(solution, program=far))
