"""toolchain: CUDA source -> cubin = NVRTC(source, arch, flags), with or without a GPU."""

from hexcute_core.toolchain.compiler import TARGETS, compile_cubin, load, toolchain_version
from hexcute_core.toolchain.cubin import Cubin, Resources
from hexcute_core.toolchain.sass import sass

__all__ = ["TARGETS", "Cubin", "Resources", "compile_cubin", "load", "sass", "toolchain_version"]
