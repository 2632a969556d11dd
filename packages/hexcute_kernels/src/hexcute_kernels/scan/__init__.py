"""Scans of state-space models: the operator, and its kernel."""

from hexcute_kernels.scan.operators import selective_scan

__all__ = ["selective_scan"]
