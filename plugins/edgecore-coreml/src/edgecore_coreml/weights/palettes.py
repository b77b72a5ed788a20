"""Palettes store weights as indices into a table of values, which the recipe `palette4` chooses by k-means.

The recipe replaces the weights of the exported program by values of the tables, so that PyTorch, too, computes with the
stored weights. It marks the calls that read these weights. The conversion to Core ML finds the marks, and stores tables
and indices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.errors import CompileError
from edgecore.plugin import Selects
from edgecore.sdk import Constants, PartitionView
from edgecore_coreml.weights.floats import rewrite_weights, store

MIN_ELEMENTS = 1024
"""Smaller weights stay as they are: often they belong to depthwise convolutions, which lose the most accuracy."""
MARK = "coreml_palette"
"""Key in a call's `node.meta["custom"]` for the fields of the `Palette` of its weights."""
PASS = "compression::palettize_weights"
"""coremltools' pass that stores weights as palettes."""


@dataclass(frozen=True)
class Palette:
    """The tables of values that store a weight: their size, and how many rows share a table.

    Attributes:
        bits: Bits per index; a table has 2^bits values.
        group: Number of rows (of the first dim) that share a table; 0 for all rows.
    """

    bits: int
    group: int = 0

    def __str__(self) -> str:
        share = f" for each {self.group} rows" if self.group else ""
        return f"indices of {self.bits} bits into a table{share}"

    @property
    def target(self) -> str:
        """The oldest deployment target (Apple system) that supports tables of this size and grouping."""
        return "iOS18" if self.group or self.bits == 3 else "iOS16"

    def of(self, rows: int) -> Palette:
        """Return the palette for a weight of `rows` rows. If `group` does not divide `rows`, all rows share a table."""
        is_grouped = self.group and rows % self.group == 0 and rows != self.group
        return self if is_grouped else replace(self, group=0)


def palettize(program: ExportedProgram, selects: Selects, palette: Palette) -> ExportedProgram:
    """Return a copy of an exported program in which each weight is rounded to the values of its tables.

    First, batch norms are folded into the convolutions that precede them. Equal weights give equal results.

    Args:
        program: The exported program.
        selects: Returns True for calls whose weights to store as tables, if they are float32 or float16 constants with
            two or more dims and at least `MIN_ELEMENTS` elements.
        palette: Size of the tables, and rows per table.

    Raises:
        CompileError: The program has no such weight.
    """

    def rewrite(_: GraphModule, constants: Constants, weight: Node, nodes: list[Node]) -> None:
        kept = palette.of(weight.meta["val"].shape[0])
        store(constants, weight, nodes, _nearest(constants.get(weight), kept), "_palettized")
        for node in nodes:
            node.meta["custom"] = {**(node.meta.get("custom") or {}), MARK: astuple(kept)}

    missing = f"quantize='palette4': the model has no constant weight with {MIN_ELEMENTS} elements or more"
    return rewrite_weights(program, selects, _is_weight, rewrite, missing)


def _is_weight(val: torch.Tensor) -> bool:
    return val.dtype in (torch.float32, torch.float16) and val.dim() > 1 and val.numel() >= MIN_ELEMENTS


def _nearest(weight: torch.Tensor, palette: Palette) -> torch.Tensor:
    """Replace each element of a weight by the nearest of the values that k-means finds for the element's table.

    K-means runs in one thread, so that the order of its sums is fixed.
    """
    import sklearn.cluster  # noqa: F401 - threadpool_limits only limits loaded libraries
    from threadpoolctl import threadpool_limits

    groups = torch.split(weight, palette.group or weight.shape[0])
    with threadpool_limits(limits=1):
        return torch.cat([torch.from_numpy(_clustered(group.numpy(), palette.bits)) for group in groups])


def _clustered(values: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Replace each element by the nearest of 2^bits centres, found by k-means on a histogram of the elements.

    Each float16 number is one bin of the histogram.
    """
    from sklearn.cluster import KMeans

    largest = float(np.abs(values).max()) or 1.0
    bins, counts = np.unique((values / largest).astype(np.float16), return_counts=True)
    means = KMeans(min(len(bins), 1 << bits), n_init=1, random_state=0)
    means.fit(bins[:, None].astype(np.float64), sample_weight=counts)
    table = np.unique((means.cluster_centers_[:, 0] * largest).astype(values.dtype))
    middles = (table[1:].astype(np.float64) + table[:-1]) / 2
    return table[np.searchsorted(middles, values)]


def describe_weights(node: Node) -> str | None:
    """Describe how the weights of an fx node are stored, for the report; None if the recipe did not mark the node."""
    fields = (node.meta.get("custom") or {}).get(MARK)
    return None if fields is None else f"weights as {Palette(*fields)}"


def palettes_of(partition: PartitionView) -> dict[str, Palette]:
    """Map the placeholder's name of each weight that a marked node of a partition reads to the weight's palette."""
    marked = {}
    for node in partition.calls:
        fields = (node.meta.get("custom") or {}).get(MARK)
        if fields is None:
            continue
        for source in node.all_input_nodes:
            if source in partition.constants and _is_weight(source.meta["val"]):
                marked[source.name] = Palette(*fields)
    return marked


def palette_config(palettes: Mapping[str, Palette]) -> Any:
    """Return the configuration that makes coremltools store the recipe's values instead of choosing its own.

    Args:
        palettes: Maps the name of a weight's placeholder to the weight's palette.
    """
    from coremltools.optimize.coreml import OpPalettizerConfig, OptimizationConfig

    configs = {}
    for name, palette in palettes.items():
        settings: dict[str, Any] = {"mode": "custom", "lut_function": _exact_table(name, palette.bits)}
        if palette.group:
            settings |= {"granularity": "per_grouped_channel", "group_size": palette.group, "channel_axis": 0}
        configs[name] = OpPalettizerConfig(weight_threshold=0, **settings)
    return OptimizationConfig(op_name_configs=configs)


def _exact_table(name: str, bits: int) -> Callable[[np.ndarray[Any, Any]], tuple[np.ndarray[Any, Any], ...]]:
    def table_of(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
        """Return the distinct values (padded to 2^bits) and each element's index, the form that coremltools needs."""
        table, indices = np.unique(values, return_inverse=True)
        if len(table) > 1 << bits:
            raise CompileError(f"{name} has {len(table)} values, and its table {1 << bits}")
        return np.pad(table, (0, (1 << bits) - len(table))), indices.astype(np.uint8).ravel()

    return table_of
