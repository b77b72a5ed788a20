"""Find the PyTorch names of an ML program's weights, for the report of a compilation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.sdk import Constants, arguments_by_name, module_path, parameter_of
from edgecore_coreml.conversion.quantized import STORED, VIEWS
from edgecore_coreml.weights.stored import StoredWeight, plain_name

aten = torch.ops.aten

_FOLDED = re.compile(r"_frozen_param\d+")
"""Names of constants that torchao's `convert_pt2e` creates by folding."""
_MOVES = (*VIEWS, aten.permute_copy.default, aten.transpose_copy.int, aten.t_copy.default)
"""Calls that leave a weight's elements unchanged."""


def names_by_precision(program: ExportedProgram, weights: Sequence[StoredWeight]) -> dict[str, list[str]]:
    """Return, for each precision such as "int8", the PyTorch names of the weights that are stored in it.

    Args:
        program: The partition.
        weights: The weights of the ML program.
    """
    of_placeholders, of_readers = _names(program)
    names: dict[str, list[str]] = {}
    for weight in weights:
        own = plain_name(weight.name)
        read = (of_readers[reader] for reader in map(plain_name, weight.readers) if reader in of_readers)
        names.setdefault(weight.precision, []).append(of_placeholders.get(own) or next(read, own))
    return names


def _names(program: ExportedProgram) -> tuple[dict[str, str], dict[str, str]]:
    """Return two maps to the names of a partition's weights: from placeholders, and from the fx nodes that read them.

    `convert_pt2e` drops the names of quantized weights. A weight without a name is named after the layer that reads it.
    """
    constants, of_placeholders, of_readers = Constants(program), dict[str, str](), dict[str, str]()
    for node in filter(constants.has, program.graph.nodes):
        target = parameter_of(str(constants.specs[node.name].target))
        name, readers = plain_name(target), list(_readers(node))
        if _FOLDED.fullmatch(name) and readers:
            reader, value = readers[0]
            layer = arguments_by_name(reader).get("weight") is value
            name = ".".join(filter(None, (module_path(reader), "weight" if layer else f"constant of {reader.name}")))
        of_placeholders[plain_name(node.name)] = name
        if node.meta["val"].dim() > 1:
            of_readers |= {reader.name: name for reader, _ in readers}
    return of_placeholders, of_readers


def _readers(value: Node) -> Iterator[tuple[Node, Node]]:
    """Yield (node, argument) for each fx node that reads a weight, directly or dequantized, viewed or permuted."""
    for user in value.users:
        if user.target in STORED or user.target in _MOVES:
            yield from _readers(user) if user.args[0] is value else ()  # skip a node that reads `value` as scales
        else:
            yield user, value
