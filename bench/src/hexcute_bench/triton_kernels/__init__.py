"""Triton kernels of our own writing, as a Triton user would write them; peers only."""
