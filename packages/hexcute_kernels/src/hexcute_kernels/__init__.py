"""GPU kernels written in Hexcute, as torch operators."""

__version__ = "0.1.0"
