"""Laws of a whole tile program, checked once it is traced.

They say where tiles lie, who may touch a slot of a pipeline, and what a gemm that is not finished
still reads. Nothing here knows how the program was traced.
"""
