"""`python without_compiler.py BUNDLE`: a process in which no part of the compiler can be loaded
launches `matmul` from a bundle, on the GPU if there is one, else on a driver that notes it.

Prints what was launched. Whatever imports hidet or cuda, or opens NVRTC, ends it.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

BUNDLE = sys.argv[1]


def refuse(event: str, args: tuple[Any, ...]) -> None:
    """The compiler's parts are out of reach."""
    if event == "import" and str(args[0]).split(".")[0] in ("hidet", "cuda", "nvidia"):
        raise ImportError(f"{args[0]} is not installed")
    if event == "ctypes.dlopen" and "nvrtc" in str(args[0]):
        raise OSError(f"{args[0]} is not installed")


sys.addaudithook(refuse)

import torch  # noqa: E402
from stand_ins import driver, on_gpu  # noqa: E402

import hexcute_kernels  # noqa: E402
from hexcute_core.errors import HexcuteError  # noqa: E402
from hexcute_core.runtime import device_count  # noqa: E402
from hexcute_kernels.gemm import matmul  # noqa: E402

HERE = device_count() > 0


def whole(*shape: int) -> Any:
    """Small whole numbers, whose products are exact."""
    made = torch.randint(-2, 3, shape).half()
    return made.cuda() if HERE else on_gpu(made)


with nullcontext() if HERE else driver("h200", (9, 0)) as noted:
    hexcute_kernels.use_bundle(BUNDLE)
    a, b = whole(64, 256), whole(512, 256)
    c = matmul(a, b)
    if HERE:
        assert torch.equal(c.float(), a.float() @ b.float().t())
        print("right on the GPU")
    else:
        (name, code), (function,) = noted.loaded[0], noted.launched
        assert function == 1 and code[:4] == b"\x7fELF"
        print("launched", name, tuple(c.shape))
    try:
        matmul(a, b, variant="mma")
    except HexcuteError as error:
        print(type(error).__name__, error)
assert "hidet" not in sys.modules
