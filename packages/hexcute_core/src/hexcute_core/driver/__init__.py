"""The compiler driver: the pipeline of stages, the cache, and kernels as Python calls them."""

from hexcute_core.driver import needed  # isort: skip  # before the rest is loaded
from hexcute_core.driver.bundle import use_bundle, write_bundle
from hexcute_core.driver.compiled import CompiledKernel
from hexcute_core.driver.kernel import Kernel, kernel
from hexcute_core.driver.preload import preload
from hexcute_core.driver.saved import SavedKernel, load
from hexcute_core.thread.timeline import Timeline

__all__ = [
    "CompiledKernel", "Kernel", "SavedKernel", "Timeline", "kernel", "load", "preload",
    "use_bundle", "write_bundle",
]  # fmt: skip
