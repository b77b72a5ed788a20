"""The exceptions that edgecore raises on purpose: each carries one sentence with what, where and what to do."""

from __future__ import annotations


class EdgecoreError(Exception):
    """Base of all of them."""


class BackendError(EdgecoreError):
    """A backend cannot be used."""


class BackendNotFound(BackendError):
    """No installed package provides the backend."""


class BackendDisabled(BackendError):
    """An environment variable excludes the backend."""


class BackendBroken(BackendError):
    """The backend's package is installed and does not work."""


class BackendAmbiguous(BackendError):
    """Several installed packages provide the backend and none was chosen."""


class CompileError(EdgecoreError):
    """A model cannot be compiled as asked."""


class QuantizationWarning(UserWarning):
    """A recipe leaves little of an output: less than 10 dB of signal to quantization noise."""


class FallbackWarning(UserWarning):
    """A backend failed on part of a model, which now runs elsewhere: right, but slower. Not an `EdgecoreError`.

    `warnings.simplefilter("error", FallbackWarning)` makes it an exception, `Backend(name, required=True)` a `CompileError`.
    """


class WriteError(EdgecoreError, OSError):
    """A file cannot be written; those that existed are as they were."""


class FormatError(EdgecoreError, ValueError):
    """A file or buffer does not follow its format."""


class ExecutionError(EdgecoreError):
    """The native runtime failed; `code` is its error number (`EDGECORE_*` in `edgecore/abi.h`)."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
