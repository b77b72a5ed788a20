"""Make the signature of a method, for `inspect.signature`, editors and notebooks."""

from __future__ import annotations

import inspect

from edgecore._runtime import Method


def signature(method: Method) -> inspect.Signature:
    r"""Build the signature of a method: one parameter for each input, and `out`.

    Parameters are named after the inputs. If a name is not an identifier, such as `past[0].key`, all parameters are
    positional and called `input_0`, `input_1` and so on.

    Args:
        method: A method of a loaded program.

    Returns:
        The signature. The annotation of a parameter is the text of its `TensorInfo`.

    Example:
        >>> str(inspect.signature(program.forward))
        "(x: \"TensorInfo('x', float32 [4])\", *, out=None)"
    """
    names = [info.name for info in method.inputs]
    plain = all(name.isidentifier() and name != "out" for name in names)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if plain else inspect.Parameter.POSITIONAL_ONLY
    parameters = [
        inspect.Parameter(name if plain else f"input_{index}", kind, annotation=repr(method.inputs[index]))
        for index, name in enumerate(names)
    ]
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    return inspect.Signature([*parameters, out])
