"""What a kernel calls and holds: one file for each group of `hx.` names.

`builder.py` is the tile program under construction, to which each of them adds.
"""
