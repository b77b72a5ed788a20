"""Link the models of several methods into one with a function per method, like ExecuTorch's Core ML backend.

A model has at most one function for each method. So the first delegates of all methods share one model, their second
delegates share another model, and so on.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from edgecore.plugin import CompiledPartition, NamedBlob, PreprocessResult
from edgecore_coreml.conversion.convert import contents, quiet
from edgecore_coreml.lowering import FORMAT, CoreMLResult
from edgecore_coreml.options import FUNCTIONS_TARGET, TARGETS, CoreMLOptions
from edgecore_coreml.package.blob import MODEL, write_reference
from edgecore_coreml.package.compiled import compile_model
from edgecore_coreml.package.files import Package, identify, pack_functions, package_files, unpack, write_files


def link(partitions: Sequence[CompiledPartition]) -> list[PreprocessResult]:
    """Return a result per partition: with the shared model, or unchanged if the partition shares no model."""
    results = [partition.result for partition in partitions]
    order = range(len(partitions))
    by_method = [list(group) for _, group in groupby(order, key=lambda number: partitions[number].method)]
    for position in range(max(map(len, by_method))):
        group = [numbers[position] for numbers in by_method if position < len(numbers)]
        if len(group) > 1 and all(_may_share(partitions[number]) for number in group):
            for number, result in zip(group, _linked([partitions[number] for number in group]), strict=True):
                results[number] = result
    return results


def _may_share(partition: CompiledPartition) -> bool:
    """Return True if the model's deployment target supports several functions, and the user allows sharing."""
    result = partition.result
    if not isinstance(result, CoreMLResult):
        return False
    targets = list(TARGETS)
    is_disabled = CoreMLOptions.from_specs(partition.specs).multimethod_weight_sharing_strategy == "DISABLED"
    return not is_disabled and targets.index(result.target) >= targets.index(FUNCTIONS_TARGET)


def _linked(partitions: Sequence[CompiledPartition]) -> list[PreprocessResult]:
    methods = [partition.method for partition in partitions]
    results = [partition.result for partition in partitions if isinstance(partition.result, CoreMLResult)]
    blobs = [result.package or result.blob for result in results]
    packages = {method: unpack(blob, {}) for method, blob in zip(methods, blobs, strict=True)}
    specification, weights, version = _merge(packages)
    key = f"coreml_{identify(specification, weights)}"
    folder = pack_functions(specification, weights, packages)
    is_compiled = any(result.package for result in results)
    named_data = {key: NamedBlob(compile_model(folder) if is_compiled else folder)}
    target = next(name for name, number in TARGETS.items() if number == version)
    return [
        replace(
            result,
            blob=write_reference(key, method),
            named_data={**result.named_data, **named_data},
            compatibility=f"{FORMAT} {target}",
            target=target,
            weights=len(weights),
            shared_by=tuple(packages),
        )
        for method, result in zip(packages, results, strict=True)
    ]


def _merge(packages: Mapping[str, Package]) -> tuple[bytes, bytes, int]:
    """Merge models into one with all their functions; return its specification, weights and specification version."""
    with tempfile.TemporaryDirectory() as name, quiet(io.StringIO()):
        import coremltools as ct

        functions: Any = ct.utils.MultiFunctionDescriptor()
        for number, (method, package) in enumerate(packages.items()):
            folder = Path(name) / str(number)
            write_files(package_files(package.specification, package.weights), folder)
            functions.add_function(str(folder / MODEL), src_function_name="main", target_function_name=method)
        functions.default_function_name = next(iter(packages))
        linked = Path(name) / MODEL
        ct.utils.save_multifunction(functions, str(linked))
        model = ct.models.MLModel(str(linked), skip_model_load=True)
        return (*contents(model), model.get_spec().specificationVersion)
