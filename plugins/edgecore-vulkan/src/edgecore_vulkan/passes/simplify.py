"""Simplify operator calls: fuse clamps into convolutions, merge views and permutes, remove calls without effect."""

from __future__ import annotations

import sys

from edgecore_vulkan.graph.calls import Call, CallGraph, has_effect

_CLAMPS = {"aten.relu.default", "aten.clamp.default", "aten.hardtanh.default"}
_VIEW, _PERMUTE = "aten.view_copy.default", "aten.permute_copy.default"


def simplify(graph: CallGraph) -> None:
    """Simplify the operator calls of `graph` in place."""
    _merge_moves(graph)
    _fuse_clamps(graph)
    drop_unread(graph)


def _merge_moves(graph: CallGraph) -> None:
    """Merge consecutive views, and consecutive permutes; remove a view or permute that changes nothing."""
    producers = graph.producers()
    dropped: list[Call] = []
    for call in graph.calls:
        if call.name not in (_VIEW, _PERMUTE):
            continue
        before = producers.get(call.args[0])
        if before is not None and before.name == call.name and _is_static(call):
            if call.name == _PERMUTE:
                first, second = before.args[1], call.args[1]
                call.args[1] = [first[dim] for dim in second]
            elif not _is_static(before):
                continue
            call.args[0] = before.args[0]
            call.nodes = before.nodes + call.nodes
        source = call.args[0]
        is_identity = (
            call.args[1] == list(range(len(source.shape)))
            if call.name == _PERMUTE
            else source.shape == call.output.shape and _is_static(call)
        )
        if is_identity and source.dtype == call.output.dtype:
            graph.replace(call.output, source)
            dropped.append(call)
    graph.remove(dropped)


def _is_static(call: Call) -> bool:
    """Return True if all sizes of a view, or dims of a permute, are numbers known when compiling."""
    return all(isinstance(item, int) and item >= 0 for item in call.args[1])


def _fuse_clamps(graph: CallGraph) -> None:
    """Fuse a clamp into the convolution before it, if nothing else reads the convolution's result.

    `et_vk.conv_with_clamp` has the arguments of the convolution, then the limits of the clamp.
    """
    producers, uses = graph.producers(), graph.uses()
    dropped: list[Call] = []
    for call in graph.calls:
        if call.name not in _CLAMPS:
            continue
        before = producers.get(call.args[0])
        if before is None or before.name != "aten.convolution.default" or uses[call.args[0]] != 1:
            continue
        low, high = (0.0, None) if call.name == "aten.relu.default" else call.args[1:3]
        limit = sys.float_info.max  # the delegate's number for "no limit"; ExecuTorch writes no infinities
        before.name = "et_vk.conv_with_clamp.default"
        before.args += [-limit if low is None else low, limit if high is None else high]
        before.outputs = call.outputs
        before.nodes += call.nodes
        producers[call.output] = before
        dropped.append(call)
    graph.remove(dropped)


def drop_unread(graph: CallGraph) -> None:
    """Remove calls whose results are not read, unless they write a buffer."""
    needed = set(graph.outputs)
    kept: list[Call] = []
    for call in reversed(graph.calls):
        if has_effect(call) or any(output in needed for output in call.outputs):
            kept.append(call)
            needed.update(call.inputs())
    graph.calls = kept[::-1]
