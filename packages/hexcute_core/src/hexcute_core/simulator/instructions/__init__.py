"""Instructions of the GPU, one family per file, each written from the PTX ISA manual."""
