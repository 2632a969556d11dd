"""Global and shared memory: bytes, what each access costs, and who touched them before whom."""
