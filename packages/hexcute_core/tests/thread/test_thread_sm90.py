"""Hopper's primitives: the PTX text they mean, and the machine code it becomes."""

from __future__ import annotations

import re

import pytest
from hopper_gemm import BM, BN, STAGES, gemm
from hopper_probe import BOXES, MAPS, TRUE, N, T, i32, product, products, program, shared, words
from machine_code import opcodes_of

from hexcute_core import dtypes as dt
from hexcute_core.backend import emit
from hexcute_core.errors import BackendError, MissingDependency
from hexcute_core.scalar import Call, add, compare, mod, mul
from hexcute_core.thread import (
    DeclareArray,
    GlobalPtr,
    If,
    MapRef,
    MatrixDesc,
    Operand,
    Prim,
    Regs,
    RemotePtr,
    ThreadProgram,
    show_program,
    verify,
)
from hexcute_core.thread.prims_sm90 import HOPPER
from hexcute_core.toolchain import Cubin, compile_cubin, sass


def machine(p: ThreadProgram) -> tuple[list[str], Cubin]:
    """(opcodes, cubin) or a skip where a tool is missing."""
    verify(p)
    try:
        cubin = compile_cubin(emit(p, "sm_90").text, "sm_90")
        text = sass(cubin)
    except MissingDependency as error:
        pytest.skip(str(error))
    assert not any(r.uses_local_memory for r in cubin.resources)
    assert "C75" not in cubin.log
    return opcodes_of(text), cubin


def count(opcodes: list[str], prefix: str) -> int:
    return sum(op.startswith(prefix) for op in opcodes)


FAR = RemotePtr(add(mul(T, 16), 2048), mod(N, 2))
WIDTHS = {1: "u8", 2: "u16", 4: "b32", 8: "v2.b32", 16: "v4.b32"}


def moved(size: int) -> Regs:
    """Registers that hold `size` bytes."""
    if size == 1:
        return Regs("b", i32(0), (0,), 1, dt.u8)
    return Regs("h", i32(0), (0,), size // 2, dt.f16)


# Every row that is no product, with the start of the PTX instruction it means.
ROWS: dict[str, tuple[tuple[Operand, ...], str]] = {
    "mbarrier.init": ((shared(), i32(3)), "mbarrier.init.shared::cta.b64 ["),
    "mbarrier.expect": ((shared(), N), "mbarrier.arrive.expect_tx.shared::cta.b64 _, ["),
    "mbarrier.arrive": ((shared(8),), "mbarrier.arrive.shared::cta.b64 _, ["),
    "mbarrier.arrive.cluster": (
        (shared(8), i32(1)), "mbarrier.arrive.shared::cluster.b64 _, ["
    ),
    "mbarrier.arrive.cluster.release": (
        (shared(8), i32(1)), "mbarrier.arrive.release.cluster.shared::cluster.b64 _, ["
    ),
    "mbarrier.wait": ((shared(), mod(N, 2)), "mbarrier.try_wait.parity.shared::cta.b64 p, ["),
    "mbarrier.wait.cluster": (
        (shared(), mod(N, 2)), "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, ["
    ),
    "cp.async.mbarrier": ((shared(),), "cp.async.mbarrier.arrive.noinc.shared::cta.b64 ["),
    "fence.mbarrier": ((), "fence.mbarrier_init.release.cluster;"),
    "fence.proxy": ((), "fence.proxy.async.shared::cta;"),
    "fence.proxy.global": ((), "fence.proxy.async.global;"),
    "tma.load": (
        (shared(1024), BOXES["map2"], shared()),
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [",
    ),
    "tma.load.multicast": (
        (shared(1024), BOXES["map2"], shared(), i32(3)),
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".multicast::cluster [",
    ),
    "tma.load.evict_first": (
        (shared(1024), BOXES["map3"], shared()), "complete_tx::bytes.L2::cache_hint ["
    ),
    "tma.load.evict_last": (
        (shared(1024), BOXES["map1"], shared()), "createpolicy.fractional.L2::evict_last.b64 "
    ),
    **{
        f"tma.load.multicast.{hint}": (
            (shared(1024), BOXES["map2"], shared(), i32(3)), ".multicast::cluster.L2::cache_hint ["
        )
        for hint in ("evict_first", "evict_last")
    },
    "bulk.load": (
        (shared(1024), GlobalPtr("x1", i32(64), dt.f16), i32(4096), shared()),
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [",
    ),
    "bulk.store": (
        (GlobalPtr("x1", mul(N, 8), dt.f16), shared(1024), mul(N, 16)),
        "cp.async.bulk.global.shared::cta.bulk_group [",
    ),
    "tma.store": (
        (BOXES["map2"], shared(1024)), "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
    ),
    "tma.reduce.add": (
        (BOXES["map2"], shared(1024)),
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [",
    ),
    **{
        f"tma.reduce.{operation}": (
            (BOXES["map2"], shared(1024)),
            f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group [",
        )
        for operation in ("min", "max")
    },
    **{
        f"{name}.{hint}": ((BOXES["map2"], shared(1024)), ".tile.bulk_group.L2::cache_hint [")
        for name in ("tma.store", "tma.reduce.add", "tma.reduce.min", "tma.reduce.max")
        for hint in ("evict_first", "evict_last")
    },
    "tma.prefetch": ((BOXES["map2"],), "cp.async.bulk.prefetch.tensor.2d.L2.global.tile ["),
    "tma.commit": ((), "cp.async.bulk.commit_group;"),
    "tma.wait": ((i32(1),), "cp.async.bulk.wait_group 1;"),
    "tma.wait.read": ((i32(2),), "cp.async.bulk.wait_group.read 2;"),
    "wgmma.fence": ((), "wgmma.fence.sync.aligned;"),
    "wgmma.commit": ((), "wgmma.commit_group.sync.aligned;"),
    "wgmma.wait": ((i32(0),), "wgmma.wait_group.sync.aligned 0;"),
    "setmaxnreg.inc": ((i32(232),), "setmaxnreg.inc.sync.aligned.u32 232;"),
    "setmaxnreg.dec": ((i32(40),), "setmaxnreg.dec.sync.aligned.u32 40;"),
    "bar.named.sync": ((i32(3), i32(64)), "bar.sync 3, 64;"),
    "bar.named.arrive": ((N, i32(128)), "bar.arrive "),
    "bar.named.any": ((words("flag", dt.i32, 1), N, i32(128)), "bar.red.or.pred p, "),
    "cluster.arrive": ((), "barrier.cluster.arrive.release;"),
    "cluster.wait": ((), "barrier.cluster.wait.acquire;"),
    **{
        f"ld.cluster.{size}": ((moved(size), FAR), f"ld.shared::cluster.{width} ")
        for size, width in WIDTHS.items()
    },
    **{
        f"st.cluster.{size}": ((FAR, moved(size)), f"st.shared::cluster.{width} [")
        for size, width in WIDTHS.items()
    },
    "griddepcontrol.wait": ((), "griddepcontrol.wait;"),
    "griddepcontrol.launch": ((), "griddepcontrol.launch_dependents;"),
    **{
        f"stmatrix.x{n}{trans}": (
            (shared(mul(mod(T, 32), 16)), words("h", dt.f16, 2 * n)),
            f"stmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16 [",
        )
        for n in (1, 2, 4)
        for trans in ("", ".trans")
    },
}  # fmt: skip


def test_the_list_of_rows_is_whole() -> None:
    assert set(ROWS) == {name for name in HOPPER if not name.startswith("wgmma.64x")}


def test_every_row_is_its_instruction() -> None:
    sizes = (("h", dt.f16, 8), ("b", dt.u8, 1), ("flag", dt.i32, 1))
    arrays = [DeclareArray(*size) for size in sizes]
    body = [*arrays, *(Prim(n, operands) for n, (operands, _) in ROWS.items())]
    opcodes, cubin = machine(program(*body, cluster_dim=(2, 1, 1)))
    for name, (_, ptx) in ROWS.items():
        assert ptx in cubin.ptx, name
    for opcode in (
        "SYNCS.EXCH", "SYNCS.ARRIVE", "SYNCS.PHASECHK", "ARRIVES.LDGSTSBAR", "UTMALDG.2D",
        "UTMALDG.2D.MULTICAST", "UTMASTG.2D", "UTMAREDG.2D.ADD", "UTMAPF", "UTMACMDFLUSH",
        "USETMAXREG", "BAR.ARV", "UCGABAR_ARV", "UCGABAR_WAIT", "STSM.16.M88.4", "STSM.16.MT88.2",
        "UTMACCTL.PF", "UBLKCP", "LD.E.128", "ST.E.128", "LD.E.U8",
    ):  # fmt: skip
        assert count(opcodes, opcode), (opcode, sorted(set(opcodes)))


@pytest.mark.parametrize("rank", range(1, 6))
def test_boxes_have_their_coordinates_innermost_first(rank: int) -> None:
    box = MapRef(f"map{rank}", tuple(i32(10 + i) for i in range(rank)))
    p = program(Prim("tma.load", (shared(1024), box, shared())))
    text = emit(p, "sm_90").text
    line = next(x for x in text.splitlines() if f"hx_tma_load_{rank}d((" in x)
    assert re.findall(r"\b1\d\b", line.replace("1024", "")) == [
        str(10 + i) for i in reversed(range(rank))
    ]
    opcodes, _ = machine(p)
    assert count(opcodes, f"UTMALDG.{rank}D") == 1


def test_maps_are_64_byte_aligned_parameters_behind_the_others() -> None:
    text = emit(program(Prim("tma.prefetch", (BOXES["map1"],))), "sm_90").text
    assert "struct __align__(64) hx_tensor_map { unsigned char bytes[128]; };" in text
    head = next(line for line in text.splitlines() if "__global__" in line)
    declared = re.findall(r"(\w+)(?=[,)])", head[head.index("hexcute_probe(") :])
    assert declared == [*(f"x{r}" for r in range(1, 6)), "n", *(m.name for m in MAPS)]
    assert head.count("const __grid_constant__ hx_tensor_map map") == len(MAPS)
    assert "__cluster_dims__" not in text
    assert "__cluster_dims__(2, 1, 1)" in emit(program(cluster_dim=(2, 1, 1)), "sm_90").text


SAMPLE = {
    "wgmma.64x8x16.f32.f16.f16.kk": "HGMMA.64x8x16.F32 ",
    "wgmma.64x96x16.f32.f16.f16.kk": "HGMMA.64x96x16.F32 ",
    "wgmma.64x176x16.f32.f16.f16.kk": "HGMMA.64x176x16.F32 ",
    "wgmma.64x256x16.f32.f16.f16.kk": "HGMMA.64x256x16.F32 ",
    "wgmma.64x256x16.f16.f16.f16.km": "HGMMA.64x256x16.F16 ",
    "wgmma.64x128x16.f32.f16.f16.mk": "HGMMA.64x128x16.F32 ",
    "wgmma.64x128x16.f32.bf16.bf16.mm": "HGMMA.64x128x16.F32.BF16 ",
    "wgmma.64x64x16.f32.bf16.bf16.rk": "HGMMA.64x64x16.F32.BF16 ",
    "wgmma.64x64x16.f32.f16.f16.rm": "HGMMA.64x64x16.F32 ",
    "wgmma.64x128x8.f32.tf32.tf32.kk": "HGMMA.64x128x8.F32.TF32 ",
    "wgmma.64x32x8.f32.tf32.tf32.rk": "HGMMA.64x32x8.F32.TF32 ",
    "wgmma.64x128x32.f32.f8e4m3.f8e4m3.kk": "QGMMA.64x128x32.F32.E4M3.E4M3 ",
    "wgmma.64x128x32.f32.f8e4m3.f8e5m2.rk": "QGMMA.64x128x32.F32.E4M3.E5M2 ",
    "wgmma.64x40x32.f32.f8e5m2.f8e5m2.kk": "QGMMA.64x40x32.F32.E5M2.E5M2 ",
    "wgmma.64x128x32.f16.f8e4m3.f8e4m3.kk": "QGMMA.64x128x32.F16.E4M3.E4M3 ",
    "wgmma.64x128x32.i32.i8.i8.kk": "IGMMA.64x128x32.S8.S8 ",
    "wgmma.64x16x32.i32.u8.u8.rk": "IGMMA.64x16x32.U8.U8 ",
}


@pytest.mark.parametrize("name", SAMPLE)
def test_products_are_one_instruction_of_their_size(name: str) -> None:
    again = compare("gt", N, 3)
    p = products(name, product(name, 0, again), product(name, 32))
    opcodes, cubin = machine(p)
    text = sass(cubin)
    wanted = SAMPLE[name]
    assert count(opcodes, wanted.split(".")[0]) == 2
    assert text.count(wanted) == 2
    assert count(opcodes, "WARPGROUP.ARRIVE") == 1
    transposed = {"kk": "", "rk": "", "km": "tnspB", "mk": "tnspA", "mm": "tnspA", "rm": "tnspB"}
    assert transposed[name.split(".")[-1]] in text


def test_a_descriptor_is_the_manuals_bit_field() -> None:
    """Address, leading and stride in units of 16 bytes at bits 0, 16, 32; the mode at bit 62."""
    name = "wgmma.64x64x16.f32.f16.f16.km"
    modes = {0: 0, 128: 1, 64: 2, 32: 3}
    for swizzle, mode in modes.items():
        a = MatrixDesc(add(mul(T, 64), 4096), 2048, 512, swizzle)
        b = MatrixDesc(i32(0), 16, 1024, 128)
        c = words("c", dt.f32, 32)
        text = emit(products(name, Prim(name, (c, a, b, TRUE))), "sm_90").text
        line = next(x for x in text.splitlines() if "hx_wgmma_64x64x16_f32_f16_f16_km_add(c" in x)
        first, second = line[line.index("c[31]") + 5 :].split("), (")
        assert f"{512 // 16 << 32 | mode << 62}ull" in first
        assert f"+ {2048 // 16 << 16 | 4096 // 16}u)" in first
        assert f"{1024 // 16 << 32 | 1 << 62}ull" in second
        assert f"(arena_units + {1 << 16}u)" in second
    assert "unsigned int arena_units = ((arena_base & 262143u) >> 4);" in text


def test_a_warp_specialised_gemm_is_made_of_hoppers_instructions() -> None:
    p = gemm()
    opcodes, cubin = machine(p)
    text = sass(cubin)
    assert count(opcodes, f"HGMMA.64x{BN}x16.F32") == 4
    assert count(opcodes, "UTMALDG.2D") == 2
    assert count(opcodes, "SYNCS.EXCH.64") == 2 * STAGES
    assert count(opcodes, "USETMAXREG") == 2
    assert count(opcodes, "HMMA") == count(opcodes, "LDL") == count(opcodes, "STL") == 0
    assert count(opcodes, "F2FP.F16.F32.PACK_AB") == BM * BN // 256 // 2
    # One wait keeps a group in flight; the products follow one another without one.
    assert re.search(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x1", text)
    inner = text[text.index("HGMMA") : text.rindex("HGMMA")]
    assert "WARPGROUP" not in inner
    # An elected lane: no loop over the lanes around the copies.
    assert count(opcodes, "BRA.U.ANY") == 0
    assert [r.registers for r in cubin.resources] == [168]


def test_products_in_flight_when_a_loop_ends_are_waited_for_where_it_ran() -> None:
    text = emit(gemm(), "sm_90").text
    body = text[text.index("float acc[128]") :]
    marks = r"wait_\d\(\);|for \(|if \(|row ="
    lines = [line for line in body.splitlines() if re.search(marks, line)]
    assert [re.sub(r"[^a-z_0-9].*", "", line.strip()) for line in lines[1:8]] == [
        "if", "for", "hx_wgmma_wait_1", "if", "if", "hx_wgmma_wait_0", "int",
    ]  # fmt: skip
    assert "if ((0u < " in lines[1]
    assert text.count("hx_wgmma_wait_0();") == 1


def test_a_lane_is_elected_by_one_instruction() -> None:
    elected = Call("elect", (), dt.boolean)
    p = program(If(elected, (Prim("tma.prefetch", (BOXES["map3"],)),)))
    assert "elect.sync _|p, 0xffffffff;" in emit(p, "sm_90").text
    opcodes, _ = machine(p)
    assert count(opcodes, "ELECT") == 1


@pytest.mark.parametrize(
    "p",
    [
        program(Prim("fence.proxy", ()), maps=()),
        program(),
        program(maps=(), cluster_dim=(2, 1, 1)),
    ],
)
def test_older_targets_are_refused(p: ThreadProgram) -> None:
    with pytest.raises(BackendError, match='target="sm_90"'):
        emit(p, "sm_80")


def test_the_printer_shows_maps_and_clusters() -> None:
    store = Prim("tma.store", (BOXES["map2"], shared(1024)))
    text = show_program(program(store, cluster_dim=(1, 2, 1)))
    assert "min_blocks 1 clusters (1, 2, 1)" in text
    assert "  map map2: (1, 64) of x2, swizzle 128\n" in text
    assert "tma.store map2[n, n * 2], shared + 1024" in text
