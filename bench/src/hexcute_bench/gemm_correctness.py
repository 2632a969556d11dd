"""`python -m hexcute_bench.gemm_correctness --out DIR`: every GEMM kernel against a reference.

Random data against torch in float32 (TF32 off), outputs poisoned with NaN; integer data against
the lane-by-lane run, bit by bit. One CSV row a case, written as it is measured.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from hexcute_bench import environment

WEIGHTS = (
    (6144, 4096), (4096, 14336), (14336, 4096), (4096, 4096),
    (10240, 8192), (8192, 28672), (8192, 8192), (28672, 8192),
)  # fmt: skip
ROWS = (32, 64, 128, 2048, 4096)
RAGGED = tuple(product((1, 17, 333), (24, 1000), (40, 65, 4104)))
SIMULATED = ((64, 64, 64), (130, 136, 72), (33, 25, 65), (17, 24, 40))
# f16 rounds to 11 bits, bf16 to 8; sums of k products grow like sqrt(k) and reach 6 of that.
RELATIVE = {"f16": 2.0**-11, "bf16": 2.0**-8}


@dataclass(frozen=True)
class Result:
    """One case: the largest error over all elements, in units of sqrt(k), and its bound."""

    kernel: str
    dtype: str
    order: str
    m: int
    n: int
    k: int
    data: str
    reference: str
    error: float
    bound: float
    passed: bool


def _operands(m: int, n: int, k: int, dtype: Any, integers: bool) -> tuple[Any, Any]:
    import torch

    def draw(*shape: int) -> Any:
        if integers:
            return torch.randint(-4, 5, shape, device="cuda").to(dtype)
        return torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype)

    return draw(m, k), draw(n, k)


def _stored(t: Any, order: str) -> Any:
    """`t` itself, or a view of equal values stored the other way around."""
    return t if order == "k" else t.t().contiguous().t()


def random_case(kernel: str, dtype_name: str, order: str, m: int, n: int, k: int) -> Result:
    """Random data against float32."""
    import torch

    import hexcute_core as hx
    from hexcute_kernels.gemm import matmul
    from hexcute_kernels.gemm.simple import register_gemm

    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype_name]
    a, b = _operands(m, n, k, dtype, integers=False)
    out = torch.full((m, n), math.nan, device="cuda", dtype=dtype)
    left, right = _stored(a, order[0]), _stored(b, order[1])
    if kernel == "simple_gemm":
        hexcute_dtype = {"f16": hx.f16, "bf16": hx.bf16}[dtype_name]
        chosen = register_gemm(hexcute_dtype, *order)
        chosen(left if order[0] == "k" else left.t(), right if order[1] == "k" else right.t(), out)
    else:
        # Where wgmma cannot run, the operator is the mma.sync kernel anyway: one row for each.
        variant = "mma" if kernel == "pipelined_gemm" else None
        matmul(left, right, out=out, variant=variant)
    error = (out.float() - a.float() @ b.float().t()).abs().max().item() / math.sqrt(k)
    bound = 7 * RELATIVE[dtype_name]
    # NaN compares false: an element that was not written fails.
    return Result(kernel, dtype_name, order, m, n, k, "random", "float32", error, bound,
                  error <= bound)  # fmt: skip


def bits_case(kernel: str, dtype_name: str, order: str, m: int, n: int, k: int) -> Result:
    """Integer data against the lane-by-lane run of the same thread program."""
    import numpy as np
    import torch

    import hexcute_core as hx
    from hexcute_kernels.gemm.pipelined import pipelined_gemm
    from hexcute_kernels.gemm.simple import register_gemm

    family = register_gemm if kernel == "simple_gemm" else pipelined_gemm
    chosen = family(hx.f16, *order)
    a, b = _operands(m, n, k, torch.float16, integers=True)
    left = a if order[0] == "k" else a.t().contiguous()
    right = b if order[1] == "k" else b.t().contiguous()
    out = torch.full((m, n), math.nan, device="cuda", dtype=torch.float16)
    chosen(left, right, out)
    simulated = np.full((m, n), np.nan, np.float16)
    regular = k % 8 == 0 and n % 8 == 0 and (order[0] == "k" or m % 8 == 0)
    compiled = chosen.compile("sm_90", aligned=regular)
    compiled.simulate(left.cpu().numpy(), right.cpu().numpy(), simulated)
    same = np.array_equal(out.cpu().numpy().view(np.uint16), simulated.view(np.uint16))
    error = 0.0 if same else math.inf
    return Result(kernel, dtype_name, order, m, n, k, "integers", "lane by lane", error, 0.0, same)


def cases() -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """(function, arguments) of every case."""
    paper = [(m, n, k) for n, k in WEIGHTS for m in ROWS]
    for shape in (*paper, *RAGGED):
        for dtype in ("f16", "bf16"):
            for order in ("kk", "kn", "mk", "mn"):
                yield random_case, ("simple_gemm", dtype, order, *shape)
                yield random_case, ("pipelined_gemm", dtype, order, *shape)
                if dtype == "f16" and (shape in RAGGED or order in ("kk", "mn")):
                    yield random_case, ("matmul", dtype, order, *shape)
    for shape in SIMULATED:
        for order in ("kk", "kn", "mk", "mn"):
            yield bits_case, ("simple_gemm", "f16", order, *shape)
            yield bits_case, ("pipelined_gemm", "f16", order, *shape)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 1 where any case fails."""
    parser = argparse.ArgumentParser(prog="python -m hexcute_bench.gemm_correctness")
    parser.add_argument("--out", type=Path, required=True, help="folder for the CSV")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    facts = environment.look()
    environment.write(options.out, facts, "gemm_correctness", {})
    failed = count = 0
    with (options.out / "gemm_correctness.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*Result.__dataclass_fields__, "gpu", "commit", "date"])
        writer.writeheader()
        for function, args in cases():
            result = function(*args)
            count += 1
            failed += not result.passed
            row = {"gpu": facts.gpu, "commit": facts.commit, "date": facts.date}
            writer.writerow({**asdict(result), **row})
            file.flush()
            if not result.passed:
                print(f"failed: {result}")
    print(f"{count - failed} of {count} cases passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
