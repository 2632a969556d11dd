"""How the time to compile grows with a program: `programs.py` has them by kind and size,
`measure.py` times each stage, `counting.py` counts the work of each.
"""
