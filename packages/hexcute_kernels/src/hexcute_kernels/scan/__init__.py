"""Scans of state-space models and the convolutions before them, over sequences and step by step."""

from hexcute_kernels.scan.chunked_operators import ssd_scan, ssd_scan_with_state
from hexcute_kernels.scan.convolution_operators import causal_conv1d, causal_conv1d_update
from hexcute_kernels.scan.operators import selective_scan, selective_scan_with_state
from hexcute_kernels.scan.update_operators import selective_state_update

__all__ = [
    "causal_conv1d", "causal_conv1d_update", "selective_scan", "selective_scan_with_state",
    "selective_state_update", "ssd_scan", "ssd_scan_with_state",
]  # fmt: skip
