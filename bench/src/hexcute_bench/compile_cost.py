"""What compiling costs: fresh processes, their caches empty.

A child held to one core imports the system, compiles every configuration of its GEMM one after
another, and prints what each took; another builds a space of 102 with all cores
(`compile_space`).
"""

from __future__ import annotations

import compileall
import functools
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from hexcute_bench.compile_space import MARK
from hexcute_bench.interface import Settings
from hexcute_bench.peers.common import module
from hexcute_bench.rows import ABSENT, FAILED, OK

TARGETS = ("sm_80", "sm_90")
STAGES = ("frontend", "synthesis", "lowering", "backend", "toolchain")
_MARK = "hexcute-compile "


def keys(quick: bool) -> Sequence[str]:
    one = [f"{system} {target}" for system in ("hexcute", "triton") for target in TARGETS]
    many = [f"{key} all cores" for key in one]
    return [*one, *many, *(f"hexcute {target} all cores, pruned" for target in TARGETS)]


def measure(key: str, settings: Settings) -> Sequence[Mapping[str, Any]]:
    """One row: on one core seconds of import, of the first configuration, the median, and all;
    on all of them seconds from the import to the last cubin."""
    system, target, *how = key.split(maxsplit=2)
    row: dict[str, Any] = {"key": key, "system": system, "target": target}
    if system == "triton" and importlib.util.find_spec("triton") is None:
        return [{**row, "status": ABSENT, "note": "triton is not installed"}]
    _install()
    with tempfile.TemporaryDirectory() as scratch:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "HEXCUTE_CACHE_DIR": f"{scratch}/hexcute",
            "TRITON_CACHE_DIR": f"{scratch}/triton",
        }
        command = [sys.executable, "-m", "hexcute_bench.compile_cost", system, target]
        if how:
            pruned = "pruned" if how[0].endswith("pruned") else "whole"
            command = [
                sys.executable, "-m", "hexcute_bench.compile_space", system, target, pruned
            ]  # fmt: skip
        if settings.quick:
            command.append("2")
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    mark = MARK if how else _MARK
    lines = [line for line in done.stdout.splitlines() if line.startswith(mark)]
    if done.returncode or not lines:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        return [{**row, "status": FAILED, "note": said[:300]}]
    told = json.loads(lines[-1][len(mark) :])
    if how:
        built = {"configurations": told["built"], "total_s": told["seconds"]}
        return [{**row, "status": OK, **built, "processes": told["processes"]}]
    return [{**row, "status": OK, "processes": 1, **_columns(told)}]


@functools.cache
def _install() -> None:
    """Compiles the packages' Python, as installing them does; Triton is installed already."""
    for name in ("cute_layout", "hexcute_core", "hexcute_kernels", "hexcute_bench", "hidet"):
        spec = importlib.util.find_spec(name)
        for folder in (spec and spec.submodule_search_locations) or ():
            compileall.compile_dir(folder, quiet=2)


def _columns(told: Mapping[str, Any]) -> dict[str, Any]:
    taken = [entry["seconds"] for entry in told["configurations"]]
    stages = [entry["stages"] for entry in told["configurations"] if entry["stages"]]
    # The first configuration also loads what the compiler loads when first needed.
    steady = stages[1:] or stages
    medians = {
        f"{stage}_stage_s": statistics.median(entry.get(stage, 0.0) for entry in steady)
        for stage in STAGES
        if steady
    }
    return {
        "configurations": len(taken),
        "import_s": told["import"],
        "first_s": taken[0],
        "median_s": statistics.median(taken[1:] or taken),
        "total_s": sum(taken),
        **medians,
    }


def _hexcute(target: str, most: int) -> list[dict[str, Any]]:
    import hexcute_core as core

    tables = module("hexcute_kernels.gemm.candidates")
    if target == "sm_90":
        kernels = module("hexcute_kernels.gemm.warp_specialized")
        kernel, table = kernels.warp_specialized_gemm(core.f16), tables.WGMMA
    else:
        kernel = module("hexcute_kernels.gemm.pipelined").pipelined_gemm(core.f16)
        table = tables.MMA
    found = []
    for config in list(table)[:most]:
        start = time.perf_counter()
        compiled = kernel.compile(target, constants=vars(config))
        size = len(compiled.built.cubin)
        seconds = time.perf_counter() - start
        found.append({"seconds": seconds, "stages": dict(compiled.seconds), "bytes": size})
    return found


def triton_cubin(
    target: str, bm: int, bn: int, bk: int, group: int, stages: int, warps: int
) -> int:
    """Bytes of the cubin of Triton's GEMM for `target`, compiled without a GPU."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from hexcute_bench.triton_kernels.gemm import gemm_kernel

    device = GPUTarget("cuda", int(target.removeprefix("sm_")), 32)
    constants = {"BM": bm, "BN": bn, "BK": bk, "GROUP": group, "EVEN_K": True}
    names = gemm_kernel.arg_names
    signature = {name: "*fp16" if name.endswith("_ptr") else "i32" for name in names}
    signature |= dict.fromkeys(constants, "constexpr")
    even = {
        (place,): [["tt.divisibility", 16]]
        for place, name in enumerate(names)
        if name not in constants
    }
    source = ASTSource(gemm_kernel, signature, constants, even)
    options = {"num_stages": stages, "num_warps": warps}
    return len(triton.compile(source, target=device, options=options).asm["cubin"])


def _triton(target: str, most: int) -> list[dict[str, Any]]:
    from hexcute_bench.triton_kernels.gemm import pointer_configs

    configs = [*pointer_configs(4096), *pointer_configs(64)]
    found = []
    for config in configs[:most]:
        start = time.perf_counter()
        size = triton_cubin(
            target, config.bm, config.bn, config.bk, config.group, config.stages, config.warps
        )
        found.append({"seconds": time.perf_counter() - start, "stages": {}, "bytes": size})
    return found


def main(system: str, target: str, most: str = "1000") -> None:
    """The child: prints one JSON line."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    start = time.perf_counter()
    loaded = importlib.import_module({"hexcute": "hexcute_core", "triton": "triton"}[system])
    imported = time.perf_counter() - start
    taken = {"hexcute": _hexcute, "triton": _triton}[system](target, int(most))
    told = {"import": imported, "module": loaded.__name__, "configurations": taken}
    print(_MARK + json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
