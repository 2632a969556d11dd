"""The attack: what could be planted, lost or hidden, tried by the thousand.

`cache` damages entries and plants others, `stale` edits what kernels depend on, `planted` runs
kernels with one mistake each, `inputs` calls every entry point with what does not fit, `schedules`
runs right kernels under many orders. Each is a function from a number to `Verdict`s; `python -m
attack` runs them all and writes a log.
"""
