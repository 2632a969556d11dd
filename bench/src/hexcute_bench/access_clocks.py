"""cycles(pattern) = the clock over many accesses of one pattern, a multiprocessor's data pipe full.

The data pipe of shared memory gives one wavefront per cycle, so that cycles an access come close to
its wavefronts where nothing else is slower.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hexcute_bench.warp_accesses import ARENA, Pattern

WARPS, REPEATS, LANES = 8, 64, 32

_ACCESS = {
    ("load", 4): 'asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v.x) : "r"(at));',
    ("load", 8): 'asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : '
    '"r"(at));',
    ("load", 16): 'asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), '
    '"=r"(v.z), "=r"(v.w) : "r"(at));',
    ("store", 4): 'asm volatile("st.shared.u32 [%1], %0;" :: "r"(v.x), "r"(at));',
    ("store", 8): 'asm volatile("st.shared.v2.u32 [%2], {%0,%1};" :: "r"(v.x), "r"(v.y), "r"(at));',
    ("store", 16): 'asm volatile("st.shared.v4.u32 [%4], {%0,%1,%2,%3};" :: "r"(v.x), "r"(v.y), '
    '"r"(v.z), "r"(v.w), "r"(at));',
}
_MATRIX = {
    1: ("{%0}", '"=r"(v.x)', 1),
    2: ("{%0,%1}", '"=r"(v.x), "=r"(v.y)', 2),
    4: ("{%0,%1,%2,%3}", '"=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)', 4),
}


def source(pattern: Pattern) -> str:
    """CUDA of the clocked kernel; lane addresses come from memory."""
    return f"""
extern "C" __global__ void __launch_bounds__({WARPS * LANES}) clocked(
    const int* address, unsigned* sink, long long* cycles) {{
  extern __shared__ __align__(16) char arena[];
  for (int i = threadIdx.x; i < {ARENA}; i += blockDim.x) arena[i] = i;
  unsigned at = (unsigned)__cvta_generic_to_shared(arena) + address[threadIdx.x % {LANES}];
  uint4 v = {{threadIdx.x, 1, 2, 3}};
  unsigned kept = 0;
  __syncthreads();
  long long start = clock64();
  #pragma unroll
  for (int i = 0; i < {REPEATS}; ++i) {{
    {_access(pattern)}
    kept ^= v.x ^ v.y ^ v.z ^ v.w;
  }}
  __syncthreads();
  long long stop = clock64();
  sink[threadIdx.x] = kept;
  if (threadIdx.x == 0) *cycles = stop - start;
}}
"""


def _access(pattern: Pattern) -> str:
    if pattern.kind in ("load", "store"):
        return _ACCESS[pattern.kind, pattern.size]
    _, count, *trans = pattern.kind.split(".")
    registers, outputs, place = _MATRIX[int(count[1:])]
    suffix = ".trans" if trans else ""
    return (
        f'asm volatile("ldmatrix.sync.aligned.m8n8.{count}{suffix}.shared.b16 {registers}, '
        f'[%{place}];" : {outputs} : "r"(at));'
    )


def cycles_per_access(patterns: Sequence[Pattern]) -> list[float]:
    """Cycles of one warp's access, the least of several runs."""
    import torch

    from hexcute_core.runtime import (
        KernelImage,
        LoadedKernel,
        Signature,
        TensorParam,
        device_target,
    )
    from hexcute_core.toolchain import compile_cubin

    target = device_target()
    threads = WARPS * LANES
    signature = Signature(
        "clocked",
        (
            TensorParam("address", "i32", (LANES,)),
            TensorParam("sink", "u32", (threads,)),
            TensorParam("cycles", "i64", (1,)),
        ),
    )
    sink = torch.zeros(threads, dtype=torch.int32, device="cuda").view(torch.uint32)
    cycles = torch.zeros(1, dtype=torch.int64, device="cuda")
    out = []
    for pattern in patterns:
        cubin = compile_cubin(source(pattern), target)
        image = KernelImage("clocked", cubin.cubin, cubin.arch, ARENA, (threads, 1, 1), signature)
        kernel = LoadedKernel(image)
        address = torch.from_numpy(pattern.addresses().astype(np.int32)).cuda()
        runs = []
        for _ in range(5):
            kernel.launch((1, 1, 1), address, sink, cycles)
            runs.append(int(cycles.item()))
        out.append(min(runs) / (WARPS * REPEATS))
    return out
