"""The emitted text: signature, arena, loops, names, addresses; located errors; the loading of
hidet."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

from hexcute_core import backend
from hexcute_core import dtypes as dt
from hexcute_core.backend import CudaSource
from hexcute_core.backend.hidet import shim
from hexcute_core.errors import BackendError, MissingDependency, SourceSpan
from hexcute_core.scalar import (
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Scalar,
    Unary,
    Var,
    add,
    mul,
)
from hexcute_core.thread import (
    Assign,
    DeclareArray,
    For,
    GlobalPtr,
    If,
    Prim,
    Regs,
    SetElement,
    SharedPtr,
    Stmt,
    ThreadParam,
    ThreadProgram,
)
from hexcute_core.toolchain import compile_cubin

T, N = Var("threadIdx.x"), Var("n")
SPAN = SourceSpan("kernel.py", 41)
TRUE = Const(True, dt.boolean)
HALVES = Regs("x", Const(0, dt.i32), (0,), 8, dt.f16)


def i32(value: int) -> Const:
    return Const(value, dt.i32)


def program(
    *body: Stmt, shared: int = 0, name: str = "probe", min_blocks: int | None = None
) -> ThreadProgram:
    params = (
        ThreadParam("a", dt.f16, (N,), pointer=True),
        ThreadParam("b", dt.f32, (N,), pointer=True),
        ThreadParam("w", dt.i4, (N,), pointer=True),
        ThreadParam("n", dt.i32),
        ThreadParam("scale", dt.f32),
        ThreadParam("big", dt.i64),
    )
    one = (i32(1), i32(1), i32(1))
    return ThreadProgram(name, params, one, 128, shared, body, min_blocks)


def emitted(*body: Stmt, arch: str = "sm_80", **options: object) -> CudaSource:
    try:
        return backend.emit(program(*body, **options), arch)  # type: ignore[arg-type]
    except MissingDependency as error:
        pytest.skip(str(error))


def kernel(*body: Stmt, arch: str = "sm_80", **options: object) -> str:
    """The kernel's own text, once the whole has compiled."""
    source = emitted(*body, arch=arch, **options)
    try:
        compile_cubin(source.text, arch)
    except MissingDependency as error:
        pytest.skip(str(error))
    return source.text[source.text.index('extern "C"') :]


def value(e: Scalar) -> Assign:
    return Assign(Var("v", e.dtype), e, declares=True)


def store(e: Scalar) -> tuple[Stmt, ...]:
    """Statements that keep `e` (f32) from being thrown away."""
    return (
        DeclareArray("kept", dt.f32, 1),
        SetElement("kept", i32(0), e),
        Prim("st.global.4", (
            GlobalPtr("b", T, dt.f32), Regs("kept", i32(0), (0,), 1, dt.f32), TRUE,
        )),
    )  # fmt: skip


def test_signature_names_bounds_and_parameter_order() -> None:
    source = emitted(min_blocks=2, name="double")
    assert source.entry == "hexcute_double"
    assert source.version == f"hidet-{shim.WANTED}"
    assert (
        'extern "C" __global__ void __launch_bounds__(128, 2) hexcute_double('
        "unsigned short* __restrict__ a, float* __restrict__ b, unsigned char* __restrict__ w, "
        "int n, float scale, long long big) {"
    ) in source.text
    assert "__launch_bounds__(128) " in kernel()


def test_the_same_program_gives_the_same_text() -> None:
    body = (
        For(Var("i"), i32(0), N, i32(1), (value(add(Var("i"), 1)),)),
        Prim("bar.sync", ()),
        *store(Call("shfl.xor", (Var("scale", dt.f32), i32(1)), dt.f32)),
    )
    first = emitted(*body)
    assert first == emitted(*body)
    code = (
        "import sys, json; sys.path[:0] = json.loads(sys.argv[1]);"
        "import test_backend_source as t; from hexcute_core.scalar import *;"
        "print(t.emitted(*t.repeated()).text, end='')"
    )
    assert emitted(*repeated()).text == _python(code, [*sys.path, str(_folder())])


def repeated() -> tuple[Stmt, ...]:
    """A program that calls several primitives; built anew in another process by a test."""
    calls = [Unary(op, Var("scale", dt.f32), dt.f32) for op in ("exp", "rsqrt", "tanh", "rcp")]
    total: Scalar = Var("scale", dt.f32)
    for call in calls:
        total = add(total, call)
    by_name = Call("cuda_i32_min", (N, T), dt.i32)
    return (value(by_name), *store(total))


def test_the_arena_is_one_aligned_extern_array() -> None:
    text = kernel(
        DeclareArray("x", dt.f16, 8),
        Prim("ld.shared.16", (HALVES, SharedPtr(add(mul(T, 16), 4096)))),
        shared=8192,
    )  # fmt: skip
    assert "extern __shared__ __align__(1024) unsigned char arena[];" in text
    # The address is taken once; offsets are 32 bits, their constant part last.
    assert text.count("__cvta_generic_to_shared(arena)") == 1
    assert "((arena_base + ((unsigned int)((int)threadIdx.x * 16))) + 4096u)" in text
    assert "arena" not in kernel()


def test_global_offsets_widen_once() -> None:
    def load(offset: Scalar, param: str = "a", t: dt.DType = dt.f16) -> Prim:
        regs = Regs("x", i32(0), (0,), 32 // t.bits, t)
        return Prim("ld.global.4", (regs, GlobalPtr(param, offset, t), TRUE))

    x, packed = DeclareArray("x", dt.f16, 2), DeclareArray("x", dt.i4, 8)
    assert "(a + ((int)threadIdx.x * n))" in kernel(x, load(mul(T, N)))
    # Constants anywhere in the sum become the instruction's immediate.
    scattered = Binary("add", add(T, 8), mul(N, 4), dt.i32)
    assert "((a + ((int)threadIdx.x + (n * 4))) + 8ll)" in kernel(x, load(scattered))
    wide = add(mul(Cast(T, dt.i64), Var("big", dt.i64)), 3)
    assert "((a + (((long long)(int)threadIdx.x) * big)) + 3ll)" in kernel(x, load(wide))
    # Two 4-bit elements a byte.
    assert "(w + (((int)threadIdx.x * 8) >> 1))" in kernel(packed, load(mul(T, 8), "w", dt.i4))


def test_loops_keep_their_shape() -> None:
    work = (Prim("bar.sync", ()),)
    unrolled = kernel(For(Var("i"), i32(0), i32(32), i32(1), work, unroll=True))
    assert "#pragma unroll\n  for (int i = 0; i < 32; ++i) {" in unrolled
    # A long loop around primitives stays rolled, a short one and pure arithmetic are free.
    assert "#pragma unroll 1\n  for (int i = 0; i < n; ++i)" in kernel(
        For(Var("i"), i32(0), N, i32(1), work)
    )
    assert "#pragma" not in kernel(For(Var("i"), i32(0), i32(4), i32(1), work))
    assert "#pragma" not in kernel(For(Var("i"), i32(0), N, i32(1), (value(Var("i")),)))
    strided = kernel(For(Var("i"), T, N, i32(4), (value(Var("i")),)))
    assert "int i = ((int)threadIdx.x + (i_count * 4));" in strided
    wide = Var("j", dt.i64)
    zero, one = Const(0, dt.i64), Const(1, dt.i64)
    body = (value(wide),)
    assert "for (long long j = 0; j < big; ++j)" in kernel(
        For(wide, zero, Var("big", dt.i64), one, body)
    )


def test_names_are_legal_and_scoped() -> None:
    names = ("int", "sqrtf", "2nd", "a.b", "hx_exp2", "arena", "été")
    body: list[Stmt] = [Assign(Var(name), i32(1), True) for name in names]
    total: Scalar = i32(0)
    for name in names:
        total = add(total, Var(name))
    text = kernel(
        *body, *store(Unary("sqrt", Cast(total, dt.f32), dt.f32)),
        If(Compare("lt", T, i32(4)), (Assign(Var("x"), i32(1), True),), (value(i32(2)),)),
        Assign(Var("x"), i32(7), True),
        shared=16,
    )  # fmt: skip
    assert "int int_ = 1;" in text
    assert "int x_1 = 7;" in text


def test_literals_are_exact() -> None:
    text = kernel(
        value(Const(0.1, dt.f16)),
        Assign(Var("v1", dt.bf16), Const(-1.0, dt.bf16), True),
        Assign(Var("v2", dt.f32), Const(float("-inf"), dt.f32), True),
        Assign(Var("v3", dt.f32), Const(float("nan"), dt.f32), True),
        Assign(Var("v4", dt.f16), Const(1e9, dt.f16), True),
        Assign(Var("v5", dt.i32), i32(-(2**31)), True),
        Assign(Var("v6", dt.u32), Const(2**32 - 1, dt.u32), True),
        Assign(Var("v7", dt.f32), Const(1 / 3, dt.f32), True),
        Assign(Var("v8", dt.i64), Const(-(2**63), dt.i64), True),
        Assign(Var("v9", dt.f64), Const(float("inf"), dt.f64), True),
    )
    for line in (
        "v = (unsigned short)11878;", "v1 = (unsigned short)49024;",
        "v2 = __int_as_float(0xff800000);", "v3 = __int_as_float(0x7fc00000);",
        "v4 = (unsigned short)31744;",
        "v5 = (-2147483647 - 1);", "v6 = 4294967295u;", "v7 = 0.3333333432674408f;",
        "v8 = (-9223372036854775807ll - 1);", "v9 = __longlong_as_double(0x7ff0000000000000);",
    ):  # fmt: skip
        assert line in text, line


def test_divisions_by_powers_of_two_multiply() -> None:
    x = Var("scale", dt.f32)
    assert "(scale * 0.125f)" in kernel(*store(Binary("div", x, Const(8.0, dt.f32), dt.f32)))
    assert "hx_div(scale, 3.0f)" in kernel(*store(Binary("div", x, Const(3.0, dt.f32), dt.f32)))
    assert "((scale * scale) * scale)" in kernel(
        *store(Binary("pow", x, Const(3.0, dt.f32), dt.f32))
    )


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_primitives_of_the_code_generator_by_name(arch: str) -> None:
    h = Cast(Var("scale", dt.f32), dt.f16)
    source = emitted(
        Prim("syncwarp", ()),
        Prim("cuda_syncthreads", ()),
        value(Call("cuda_f16_tanh", (h,), dt.f16)),
        Prim("fence_acq_rel_gpu", ()),
        *store(Cast(Call("exp", (h,), dt.f16), dt.f32)),
        arch=arch,
    )
    compile_cubin(source.text, arch)
    assert "#include <cuda_fp16.h>" in source.text
    assert "__half_as_ushort(hexp(__ushort_as_half(hx_f32_to_f16(scale))))" in source.text
    assert "__device__ __forceinline__ half cuda_f16_tanh(half" in source.text
    assert "fence.acq_rel.gpu;" in source.text
    assert source.text.count("__syncthreads()") == 1


NARROW = [dt.f16, dt.bf16, dt.f8e4m3, dt.f8e5m2]


@pytest.mark.parametrize(
    ("name", "given", "result", "message"),
    [
        *(("cuda_f32_exp", t, dt.f32, f"takes float32, got {t}") for t in NARROW),
        *(("cuda_f32_exp", dt.f32, t, f"gives float32, not {t}") for t in (*NARROW, dt.tf32)),
        ("cuda_f16_exp", dt.bf16, dt.f16, "takes float16, got bf16"),
        ("cuda_f16_exp", dt.f32, dt.f16, "takes float16, got f32"),
        ("exp", dt.bf16, dt.f16, "gives bfloat16, not f16"),
        ("exp", dt.f16, dt.f32, "gives float16, not f32"),
        ("cuda_f32_exp", dt.f32, dt.i4, "gives float32, not i4"),
    ],
    ids=str,
)
def test_primitives_by_name_take_numbers_not_their_bits(
    name: str, given: dt.DType, result: dt.DType, message: str
) -> None:
    call = Call(name, (Cast(Var("scale", dt.f32), given),), result)
    with pytest.raises(BackendError, match=message) as caught:
        emitted(Assign(Var("v", result), call, True, SPAN), arch="sm_90")
    assert caught.value.fix and caught.value.span == SPAN


@pytest.mark.parametrize("t", [dt.f64, dt.i32, dt.i8, dt.u64], ids=str)
def test_primitives_by_name_convert_what_c_converts(t: dt.DType) -> None:
    call = Call("cuda_f32_exp", (Cast(Var("scale", dt.f32), t),), t)
    assert "__expf(((float)" in emitted(*store(Cast(call, dt.f32))).text


def test_shuffles_move_any_type_of_32_bits() -> None:
    for t in (dt.f32, dt.f16, dt.bf16, dt.i32, dt.u8):
        lane = Call("shfl.idx", (Cast(Var("scale", dt.f32), t), i32(3)), t)
        kernel(*store(Cast(lane, dt.f32)))
    up = emitted(*store(Call("shfl.up", (Var("scale", dt.f32), i32(1)), dt.f32))).text
    assert "shfl.sync.up.b32 %0, %1, %2, 0, 0xffffffff;" in up


@pytest.mark.parametrize("t", [dt.f64, dt.i64, dt.u64], ids=str)
@pytest.mark.parametrize("name", ["shfl.xor", "shfl.idx", "shfl.up", "shfl.down"])
def test_shuffles_move_64_bits_in_two(name: str, t: dt.DType) -> None:
    lane = Call(name, (Cast(Var("scale", dt.f32), t), i32(3)), t)
    source = emitted(*store(Cast(lane, dt.f32)))
    compile_cubin(source.text, "sm_80")
    assert source.text.count("shfl.sync.") == 2


F8 = Cast(Var("scale", dt.f32), dt.f8e4m3)


@pytest.mark.parametrize(
    ("stmt", "message"),
    [
        (Assign(Var("v"), Var("nowhere"), True, SPAN), "'nowhere' is not defined"),
        (SetElement("r", i32(0), i32(0), SPAN), "'r' is not declared"),
        (Prim("ld.global.16", (HALVES, GlobalPtr("n", T, dt.f16), TRUE), SPAN), "not a pointer"),
        (Prim("ld.shared.16", (HALVES, SharedPtr(T)), SPAN), "reserves none"),
        (Prim("ld.global.8", (HALVES, GlobalPtr("a", T, dt.f16), TRUE), SPAN), "takes 2 register"),
        (Prim("ldmatrix.x2", (HALVES, SharedPtr(T)), SPAN), "takes 2 words"),
        (Prim("ldmatrix.x4", (HALVES,), SPAN), r"takes \(regs, shared\), got \(Regs\)"),
        (Prim("cp.async.wait", (N,), SPAN), "takes a constant"),
        (Prim("cuda_syncthread", (), SPAN), "no primitive called 'cuda_syncthread'"),
        (Prim("syncwarp", (N,), SPAN), "takes 0 arguments, got 1"),
        (Prim("cpu_sin", (N,), SPAN), "no primitive called 'cpu_sin'"),
        (Prim("cuda_cvt_f32_to_f16", (N,), SPAN), "cannot be called by name"),
        (Prim("cuda_mbarrier_init", (N, N), SPAN), "arguments that are no scalars"),
        (Assign(Var("v"), Call("syncwarp", (), dt.i32), True, SPAN), "syncwarp gives no value"),
        (Assign(Var("v"), Call("shfl.xor", (N,), dt.i32), True, SPAN), "a value and a lane"),
        (Assign(Var("v"), Binary("div", N, T, dt.i32), True, SPAN), "true division of i32"),
        (Assign(Var("v"), Binary("pow", N, T, dt.i32), True, SPAN), "constant exponent"),
        (Assign(Var("v"), Unary("exp", N, dt.i32), True, SPAN), "exp is not defined on i32"),
        (Assign(Var("v"), Const(300, dt.u8), True, SPAN), "300 does not fit u8"),
        (Assign(Var("v", dt.f8e4m3), F8, True, SPAN), "sm_80 has no conversion"),
    ],
)
def test_errors_say_where_and_what(stmt: Stmt, message: str) -> None:
    with pytest.raises(BackendError, match=message) as caught:
        emitted(DeclareArray("x", dt.f16, 8), If(TRUE, (stmt,)), shared="SharedPtr(T)" in message)
    assert caught.value.span == SPAN


def test_errors_of_the_generator_itself_are_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    emitted()
    from hexcute_core.backend.hidet import scalars

    def broken(*_: object) -> None:
        raise AssertionError("deep inside")

    monkeypatch.setattr(scalars, "constant", broken)
    with pytest.raises(BackendError, match="refused this Assign: deep inside") as caught:
        emitted(Assign(Var("v"), i32(1), True, SPAN))
    assert caught.value.span == SPAN


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(BackendError, match="no backend called 'llvm'"):
        backend.emit(program(), "sm_80", "llvm")


def test_without_hidet_the_line_to_run_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    shim.installed_version.cache_clear()
    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(MissingDependency, match="pip install --no-deps hidet==") as caught:
        backend.version()
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.3.0")
    with pytest.raises(MissingDependency, match=r"hidet 0\.3\.0 is installed, 0\.6\.1 is needed"):
        backend.version()
    assert "numpy" in str(caught.value.fix)
    shim.installed_version.cache_clear()


def _folder() -> Path:
    return Path(__file__).parent


def _python(code: str, path: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(path)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_loading_brings_no_torch_no_hip_and_no_cute_dialect() -> None:
    emitted()
    code = (
        "import sys, json; sys.path[:0] = json.loads(sys.argv[1]);"
        "from hexcute_core.backend.hidet import shim; own = shim.ours(); own.__enter__();"
        "shim.load(); shim.load_primitives(); files = {n: getattr(m, '__file__', None)"
        " for n, m in sys.modules.items()}; print(json.dumps(files))"
    )
    loaded: dict[str, str | None] = json.loads(_python(code, sys.path))
    roots = {name.partition(".")[0] for name in loaded}
    assert not roots & {"torch", "hip", "cuda"}
    dialect = [n for n in loaded if n.startswith(("hidet.ir.cute", "hidet.transforms.cute"))]
    # Their names are answered by empty modules, which have no file.
    assert all(loaded[name] is None for name in dialect)
    assert loaded["hidet.ir.expr"] is not None
