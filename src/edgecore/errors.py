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


class ErrorCode:
    """Numbers of the native runtime's errors: `EDGECORE_*` in `edgecore/abi.h`."""

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
    """The native runtime failed; `code` is one of `ErrorCode`."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
