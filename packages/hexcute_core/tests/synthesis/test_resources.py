"""What a kernel takes of a multiprocessor: registers of tiles by line, spills told, occupancy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import hexcute_core as hx
from hexcute_core import f16, f32
from hexcute_core.arch.registry import arch
from hexcute_core.synthesis.explain.machine import machine
from hexcute_core.synthesis.held import held

m, n, k = hx.dims("m n k")


def kernel_of(parts: int, columns: int):
    """Two tiles of `parts` x 128 x `columns` that are held at once by 128 threads."""

    @hx.kernel(cache=False)
    def many(a: f32[m, n], c: f32[m, n]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        left = hx.register_tensor(f32, (128, columns, parts))
        right = hx.register_tensor(f32, (128, columns, parts))
        for p in hx.static_range(parts):
            hx.copy(hx.global_view(a[p:, :], ((128, columns), (n, 1))), left[:, :, p])
            hx.copy(hx.global_view(a[p:, :], ((128, columns), (n, 1))), right[:, :, p])
        hx.syncthreads()
        for p in hx.static_range(parts):
            both = left[:, :, p] + right[:, :, p]
            hx.copy(both, hx.global_view(c[p:, :], ((128, columns), (n, 1))))

    return many


def test_a_tile_is_held_from_its_first_write_to_its_last_read() -> None:
    @hx.kernel(cache=False)
    def chain(a: f32[m, n], c: f32[m, n]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        ga = hx.global_view(a[:, :], ((128, 32), (n, 1)))
        gc = hx.global_view(c[:, :], ((128, 32), (n, 1)))
        first, second = hx.register_tensor(f32, (128, 32)), hx.register_tensor(f32, (128, 32))
        hx.copy(ga, first)
        total = hx.register_tensor(f32, (128, 32))
        hx.fill(total, 0.0)
        for _ in range(n):
            hx.copy(ga, second)  # first, second and total: 96 registers
            total += first * second
        half = hx.cast(total, f16)
        hx.copy(hx.cast(half, f32), gc)

    (found,) = held(chain.compile("sm_80").solution)
    assert (found.first, found.threads, found.claimed) == (0, 128, None)
    assert dict(found.tiles) == {"first": 32, "second": 32, "total": 32}
    assert found.registers == 96 and "test_resources.py" in str(found.span)


def test_a_tile_under_other_coordinates_lies_in_the_same_registers() -> None:
    @hx.kernel(cache=False)
    def cut(a: f32[m, n], c: f32[m, n]):
        hx.attrs.cuda.grid_dim = 1
        hx.attrs.cuda.block_dim = 128
        r = hx.register_tensor(f32, (128, 32))
        hx.copy(hx.global_view(a[:, :], ((128, 32), (n, 1))), r)
        halves = hx.reshape(r, (128, 2, 16))
        for p in hx.static_range(2):
            hx.copy(halves[:, p, :], hx.global_view(c[:, 16 * p :], ((128, 16), (n, 1))))

    (found,) = held(cut.compile("sm_80").solution)
    assert found.registers == 32


def test_roles_are_told_apart_with_what_they_claim() -> None:
    @hx.kernel(cache=False)
    def roles(a: f16[m, k], c: f32[m, n]):
        hx.attrs.cuda.grid_dim = 1
        s = hx.shared_tensor(f16, (64, 64, 2))
        pipe = hx.pipeline(2)
        with hx.warp_groups_producer(registers=40):
            for i in range(2):
                with pipe.produce() as slot:
                    ga = hx.global_view(a[:, i * 64 :], ((64, 64), (k, 1)))
                    hx.copy(ga, s[:, :, slot])
        with hx.warp_groups_consumer(registers=232):
            rc = hx.register_tensor(f32, (64, 64))
            hx.fill(rc, 0.0)
            for _ in range(2):
                with pipe.consume() as slot:
                    hx.gemm(rc, s[:, :, slot], s[:, :, slot])
            hx.copy(rc, hx.global_view(c[:, :], ((64, 64), (n, 1))))

    compiled = roles.compile("sm_90")
    (found,) = held(compiled.solution)
    assert (found.first, found.threads, found.claimed) == (128, 128, 232)
    assert dict(found.tiles) == {"rc": 32}
    text = compiled.explain()
    assert "threads 128 to 255 hold 32 of 232 registers in tiles at test_resources.py:" in text
    assert "machine code" not in text and "machine code: " in compiled.explain(machine=True)


def test_what_spills_is_told_with_its_line() -> None:
    kernel = kernel_of(3, 64)
    with pytest.warns(hx.SpillWarning, match=r"many: .*test_resources\.py:\d+.* spill") as told:
        compiled = kernel.compile("sm_80")
        assert compiled.built.local_memory
    assert "its tiles fill 448 registers (left 192, right 192, " in str(told[0].message)
    told_again = compiled.explain(machine=True)
    assert "warning: " in told_again and "spill to local memory" in told_again
    assert '"spilled": ' in compiled.explain(form="json", machine=True)
    assert "spill to local memory" in compiled.explain(form="html", machine=True)


def test_no_compilation_fails_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[type] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setattr(warnings, "showwarning", lambda _, kind, *place: shown.append(kind))
        compiled = kernel_of(3, 64).compile("sm_80")
        assert compiled.built.local_memory
    assert shown == [hx.SpillWarning]


def test_what_fits_is_not_told() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", hx.SpillWarning)
        compiled = kernel_of(1, 64).compile("sm_80")
        text = compiled.explain(machine=True)
    assert ", 0 bytes spilled, 0 in local memory" in text and "warning" not in text
    a = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    c = np.zeros_like(a)
    compiled.simulate(a, c)
    assert np.array_equal(c, a * 2)


@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared", "blocks", "limit"),
    [
        # By NVIDIA's occupancy calculator.
        ("sm_80", 256, 32, 0, 8, "registers and threads"),
        ("sm_80", 128, 255, 0, 2, "registers"),
        ("sm_80", 128, 40, 80 * 1024, 2, "shared memory"),
        ("sm_90", 384, 168, 200 * 1024, 1, "registers and shared memory"),
        ("sm_90", 32, 16, 0, 32, "the number of blocks"),
        ("sm_90", 1024, 64, 0, 1, "registers"),
    ],
)
def test_blocks_a_multiprocessor_holds(
    name: str, threads: int, registers: int, shared: int, blocks: int, limit: str
) -> None:
    found = machine(arch(name), threads, registers, 0, 0, shared)
    assert (found.blocks, found.limit) == (blocks, limit)


@pytest.mark.gpu
@pytest.mark.parametrize("parts", [1, 2])
def test_the_driver_counts_the_same_blocks(parts: int) -> None:
    import ctypes

    torch = pytest.importorskip("torch")
    kernel = kernel_of(1, 32 * parts)
    a = torch.zeros((128 + parts, 32 * parts), device="cuda")
    c = torch.zeros_like(a)
    kernel(a, c)
    capability = torch.cuda.get_device_capability()
    if capability != (9, 0):
        pytest.skip("written for sm_90")
    compiled = kernel.compile("sm_90")
    loaded, _ = compiled.load()
    loaded.launch((1, 1, 1), a, c)
    (function,) = loaded._functions.values()
    blocks, shared = ctypes.c_int(), compiled.built.shared_bytes
    status = ctypes.CDLL("libcuda.so.1").cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(blocks), ctypes.c_void_p(function), 128, ctypes.c_size_t(shared)
    )
    assert status == 0
    built = compiled.built
    counted = machine(arch("sm_90"), 128, built.registers, 0, 0, shared)
    assert counted.blocks == blocks.value
