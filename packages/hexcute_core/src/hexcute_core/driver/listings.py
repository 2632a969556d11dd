"""Listings : Built -> CUDA, PTX and machine code as text, of whatever has a compiled kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod

from hexcute_core.driver.built import Built


class Listings(ABC):
    """What a compiled kernel is made of, as text."""

    @property
    @abstractmethod
    def built(self) -> Built:
        """The machine code with what a launch needs."""

    def source(self) -> str:
        """The generated CUDA."""
        return self.built.source

    def ptx(self) -> str:
        """The PTX that NVRTC made of it."""
        return self.built.ptx

    def sass(self) -> str:
        """The machine code, disassembled. Raises MissingDependency without a disassembler."""
        from hexcute_core.toolchain import sass

        return sass(self.built.cubin)
