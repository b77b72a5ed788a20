"""The signature of a method for `inspect.signature`, editors and notebooks."""

from __future__ import annotations

import inspect

from edgecore._runtime import Method


def signature(method: Method) -> inspect.Signature:
    """Parameters with the names of the inputs; by position only where a name is a path, such as `past[0].key`."""
    names = [info.name for info in method.inputs]
    plain = all(name.isidentifier() and name != "out" for name in names)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if plain else inspect.Parameter.POSITIONAL_ONLY
    parameters = [
        inspect.Parameter(name if plain else f"input_{index}", kind, annotation=repr(method.inputs[index]))
        for index, name in enumerate(names)
    ]
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    return inspect.Signature([*parameters, out])
