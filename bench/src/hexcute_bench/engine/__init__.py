"""Three models end to end: their layers as plain torch code over a set of operators, with random
weights, and the time of generating tokens with them.

    sizes         what the published configurations say, and small ones of the same form
    operators     what a model calls; a system is one set of these
    models        layers of DeepSeek-R1, Jamba and Qwen3 over such a set
    generation    prompts, steps under CUDA graphs, and their time
"""
