"""The Hello backend. Loading a file imports this module, so it must not import torch or other large packages."""

from __future__ import annotations

from edgecore_hello.backend import edgecore_backends as edgecore_backends
