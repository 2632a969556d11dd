"""Every error and warning a user can cause or meet: a base class each, one located rendering.

``str(error)`` is ``file:line: message``, followed by ``  fix: ...`` where a fix is known.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class SourceSpan:
    """A place in a user's source: ``line`` counts from 1, ``col`` from 0 (as ``ast`` does)."""

    file: str
    line: int
    col: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class HexcuteError(Exception):
    """The base of all errors of this package.

    ``message`` says what was found and what was expected, ``span`` where it was found,
    ``fix`` what to write or run instead.
    """

    def __init__(
        self, message: str, span: SourceSpan | None = None, fix: str | None = None
    ) -> None:
        super().__init__(message, span, fix)
        self.message = message
        self.span = span
        self.fix = fix

    def __str__(self) -> str:
        head = self.message if self.span is None else f"{self.span}: {self.message}"
        return head if self.fix is None else f"{head}\n  fix: {self.fix}"


class FrontendError(HexcuteError):
    """The kernel's Python source says something the language does not have."""


class LayoutConflict(HexcuteError):
    """Two operations want one tensor in layouts that no solution can reconcile."""


class NoLayout(HexcuteError):
    """No candidate layout or instruction fits an operation."""


class VerifyError(HexcuteError):
    """A value between two stages breaks that stage's law."""


class SimulationError(HexcuteError):
    """The simulated program did something the machine does not define."""


class BackendError(HexcuteError):
    """The thread program could not be turned into CUDA source."""


class ToolchainError(HexcuteError):
    """The CUDA compiler or a binary tool refused its input, or warned of broken code."""


class LaunchError(HexcuteError):
    """The arguments of a launch do not fit the kernel, or the driver refused it."""


class OptionError(HexcuteError):
    """An option of a call is of another kind than the call takes."""


class SavedKernelError(HexcuteError):
    """A saved kernel could not be written, or a file is no saved kernel; the path comes first."""


class TunerError(HexcuteError):
    """A space to be tuned is none, or what times its candidates does not run at all."""


class MissingDependency(HexcuteError):
    """Something that must be installed is not; ``fix`` is the line to run."""


class HexcuteWarning(UserWarning):
    """The base of all warnings of this package."""


class RearrangeWarning(HexcuteWarning):
    """The compiler had to move a tile between threads, which the author did not ask for."""


class SpillWarning(HexcuteWarning):
    """A kernel's registers, or its arrays, do not fit: a part of them lies in local memory."""


class CacheWarning(HexcuteWarning):
    """A compiled kernel could not be kept; it works, and is compiled again by the next process."""
