"""Loads hand-written Hopper programs, their waits made to trap instead of hanging the GPU."""

from __future__ import annotations

from hexcute_core.backend import emit
from hexcute_core.runtime import KernelImage, LoadedKernel, Signature
from hexcute_core.thread import ThreadProgram, verify
from hexcute_core.toolchain import compile_cubin

_WAIT = "static __device__ __forceinline__ void hx_mbarrier_wait("
_SPIN = "while (!hx_mbarrier_try_wait(barrier, parity)) {"
_NOW = """static __device__ __forceinline__ unsigned long long now() {
  unsigned long long t;
  asm volatile ("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

"""
_TIMED = """for (unsigned long long since = now(); !hx_mbarrier_try_wait(barrier, parity);) {
    if (now() - since > 2000000000ull) __trap();"""


def guarded(text: str) -> str:
    """The source with waits that trap after two seconds."""
    if _WAIT not in text:
        return text
    assert text.count(_SPIN) == 1
    return text.replace(_WAIT, _NOW + _WAIT).replace(_SPIN, _TIMED)


def load(program: ThreadProgram, signature: Signature, guard: bool = True) -> LoadedKernel:
    """The program as the runtime launches it."""
    verify(program)
    source = emit(program, "sm_90")
    cubin = compile_cubin(guarded(source.text) if guard else source.text, "sm_90")
    return LoadedKernel(
        KernelImage(
            source.entry, cubin.cubin, cubin.arch, program.shared_bytes,
            (program.block_dim, 1, 1), signature, program.maps, program.cluster_dim,
        )
    )  # fmt: skip
