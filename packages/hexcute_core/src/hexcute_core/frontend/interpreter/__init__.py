"""The interpreter of a kernel's syntax tree: statements, expressions, control flow, names, calls.

What a call of the language itself builds is in `frontend.language`.
"""
