"""Operators on rows: softmax, and what layers of a network normalise by."""

from hexcute_kernels.norms.operators import layer_norm, rms_norm, softmax

__all__ = ["layer_norm", "rms_norm", "softmax"]
