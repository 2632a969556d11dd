"""Timing rows of the instruction tables, measured: `clocks = fixed + trips * clocks a trip`.

Each row has a probe for `issue`, enough warps with independent calls that a unit never waits, and
one for `latency`, one warp whose calls depend on each other. A probe is a hand-written thread
program around a loop; its number of trips is an argument, and the slope over several numbers of
trips leaves out the loop's start and end. See `docs/microbench.md`.
"""
