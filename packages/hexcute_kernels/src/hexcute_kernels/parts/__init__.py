"""What kernels share: device functions and parameter types, in one place each; no kernel.

A part is inlined where it is called, so a kernel made of parts is the same code as one written out.
"""
