"""Exceptions and warnings of edgecore. Each message is one sentence: what is wrong, where, and what to do."""

from __future__ import annotations


class EdgecoreError(Exception):
    """Base class of all exceptions of edgecore."""


class BackendError(EdgecoreError):
    """A backend cannot be used."""


class BackendNotFound(BackendError):
    """No installed package provides the backend."""


class BackendDisabled(BackendError):
    """An environment variable excludes the backend."""


class BackendBroken(BackendError):
    """The backend's package is installed but does not work."""


class BackendAmbiguous(BackendError):
    """Several installed packages provide the backend, and the user chose none of them."""


class CompileError(EdgecoreError):
    """A model cannot be compiled with the requested options."""


class NothingToQuantize(CompileError):
    """The recipe matched no layer of the model."""


class CalibrationMissing(CompileError):
    """A recipe needs calibration, and the caller passed none."""


class QuantizationWarning(UserWarning):
    """Quantization damaged an output (signal to quantization noise ratio below 10 dB), or destroyed a layer."""


class PrecisionWarning(UserWarning):
    """A model has numbers that a backend's float16 cannot represent, such as 1e-12, so its results may be wrong."""


class FallbackWarning(UserWarning):
    """A backend failed on a partition. Another backend or a kernel runs it instead: correctly, but maybe more slowly.

    `warnings.simplefilter("error", FallbackWarning)` turns the warning into an exception, and
    `Backend(name, required=True)` turns the failure into a `CompileError`.
    """


class NoEffectWarning(UserWarning):
    """An argument in ExecuTorch's documentation has no effect in edgecore; the message gives the reason.

    Each argument is warned about once in a process.
    """


class WriteError(EdgecoreError, OSError):
    """A file cannot be written. Files that existed before are unchanged."""


class FormatError(EdgecoreError, ValueError):
    """A file or buffer does not follow its format."""


class ErrorCode:
    """Error codes of the native runtime: the constants `EDGECORE_*` of `edgecore/abi.h`."""

    OK = 0x00
    INTERNAL = 0x01
    INVALID_STATE = 0x02
    END_OF_METHOD = 0x03
    ALREADY_LOADED = 0x04
    NOT_SUPPORTED = 0x10
    NOT_IMPLEMENTED = 0x11
    INVALID_ARGUMENT = 0x12
    INVALID_TYPE = 0x13
    OPERATOR_MISSING = 0x14
    REGISTRATION_EXCEEDING_MAX = 0x15
    REGISTRATION_ALREADY_REGISTERED = 0x16
    NOT_FOUND = 0x20
    MEMORY_ALLOCATION_FAILED = 0x21
    ACCESS_FAILED = 0x22
    INVALID_PROGRAM = 0x23
    INVALID_EXTERNAL_DATA = 0x24
    OUT_OF_RESOURCES = 0x25
    DELEGATE_INVALID_COMPATIBILITY = 0x30
    DELEGATE_MEMORY_ALLOCATION_FAILED = 0x31
    DELEGATE_INVALID_HANDLE = 0x32


class ExecutionError(EdgecoreError):
    """The native runtime failed. `code` is one of the numbers of `ErrorCode`."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
