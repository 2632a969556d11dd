"""Random kernels: texts in the language of kernels, drawn by a seed, run and compared with numpy.

`random_kernel(seed)` writes one, `attempt(kernel)` compiles, proves, simulates and compares it,
`shrunk(kernel)` makes a small one of one that fails, `python -m random_kernels 1000` runs many.
"""

from random_kernels.kernels import random_kernel
from random_kernels.running import Kernel, Outcome, attempt
from random_kernels.shrinking import shrunk

__all__ = ["Kernel", "Outcome", "attempt", "random_kernel", "shrunk"]
