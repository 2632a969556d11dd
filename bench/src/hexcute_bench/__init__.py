"""The comparisons: Hexcute's kernels beside the libraries one would otherwise call.

A suite is a list of shapes and of peers; a run writes one CSV row a shape and a system, as it
is measured, with the environment beside it; figures, tables and the report are drawn from the
CSV files alone.
"""
