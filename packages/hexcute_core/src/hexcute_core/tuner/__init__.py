"""tuner: a space of compile-time constants -> the fastest of them on this GPU.

    rank by the cost model -> compile the best few -> time them in turns -> keep what was found
"""
