"""Interprets tile programs on whole numpy tiles: what a kernel means, with no layout anywhere."""
