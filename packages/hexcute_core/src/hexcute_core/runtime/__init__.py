"""runtime: cubin -> a kernel called with torch tensors = load x bind x launch.

The only folder that knows the CUDA driver and torch; both load at the first launch.
"""

from hexcute_core.runtime.binding import HOST, Binder, Bound, BoundArguments, bind, make_binder
from hexcute_core.runtime.described import Described
from hexcute_core.runtime.devices import device_count, device_target, multiprocessors
from hexcute_core.runtime.image import KernelImage
from hexcute_core.runtime.launching import Grid
from hexcute_core.runtime.loaded import LoadedKernel
from hexcute_core.runtime.signature import (
    ParamSpec,
    ScalarParam,
    Signature,
    SymbolParam,
    TensorParam,
    default_divisors,
    packed_divisors,
)
from hexcute_core.runtime.specialisation import Specialisation, best_key, decode, levels, plain_key
from hexcute_core.runtime.stamps import StampBuffer, Written

__all__ = [
    "HOST",
    "Binder",
    "Bound",
    "BoundArguments",
    "Described",
    "Grid",
    "KernelImage",
    "LoadedKernel",
    "ParamSpec",
    "ScalarParam",
    "Signature",
    "Specialisation",
    "StampBuffer",
    "SymbolParam",
    "TensorParam",
    "Written",
    "best_key",
    "bind",
    "decode",
    "default_divisors",
    "packed_divisors",
    "device_count",
    "device_target",
    "levels",
    "make_binder",
    "multiprocessors",
    "plain_key",
]
