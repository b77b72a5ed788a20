"""The passes of lowering as a list: order, editing by name, and their table in the documentation."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from edge_programs import INPUTS, net
from torch.export import export

import edgecore
from edgecore.errors import CompileError
from edgecore.ir.graph import calls
from edgecore.passes import EDGE_PASSES, ExportPass, NamedPass, PassList
from edgecore.pipeline import to_edge, to_edge_transform_and_lower

ROOT = Path(__file__).parents[2]
aten = torch.ops.aten


def targets(edge):
    return [node.target for node in calls(edge.exported_program().graph_module)]


def test_a_skipped_pass_does_not_run():
    norm = aten._native_batch_norm_legit_no_training.default
    assert norm not in targets(to_edge(export(net(), INPUTS)))
    assert norm in targets(to_edge(export(net(), INPUTS), passes=EDGE_PASSES.skip("fuse_batch_norm")))


def test_inserted_passes_run_beside_the_named_one_and_in_its_stage():
    seen = []

    def note(name):
        def run(program):
            seen.append((name, {str(node.target) for node in calls(program.graph_module)}))
            return program

        return NamedPass(name, run, stage="edge")

    def in_memory_stage(program):
        seen.append(("memory", set()))
        return program

    passes = EDGE_PASSES.insert_before("decompose", note("before")).insert_after("decompose", note("after"))
    passes = passes.insert_before("pack_weights", in_memory_stage)
    edge = to_edge_transform_and_lower(export(net(), INPUTS), passes=passes)
    assert [name for name, _ in seen] == ["before", "after"]
    assert "aten.conv2d.default" in seen[0][1]
    assert "aten.convolution.default" in seen[1][1]
    edge.to_executorch()
    assert seen[2][0] == "memory"


def test_a_replaced_pass_is_the_one_that_runs():
    class TanhToSigmoid(ExportPass):
        def call_operator(self, op, args, kwargs, meta):
            return super().call_operator(aten.sigmoid.default if op is aten.tanh.default else op, args, kwargs, meta)

    passes = EDGE_PASSES.replace("crop_padding_only_taps", TanhToSigmoid())
    assert "TanhToSigmoid" in passes.names and "crop_padding_only_taps" not in passes.names
    program = edgecore.compile(net(), INPUTS, passes=passes)
    model = net()
    want = torch.sigmoid(model.norm(model.conv(INPUTS[0])))
    torch.testing.assert_close(edgecore.load(program).forward(*INPUTS), want)


def test_an_unknown_name_is_an_error_that_lists_the_names():
    for edit in (EDGE_PASSES.skip, EDGE_PASSES.insert_after, EDGE_PASSES.insert_before, EDGE_PASSES.replace):
        with pytest.raises(
            CompileError, match="no pass 'fold': there are inline_regions, lift_body_constants, .*fold_constants, "
        ):
            edit("fold")


def test_two_passes_of_one_name_are_an_error():
    with pytest.raises(CompileError, match="two passes are called 'merge_views'"):
        EDGE_PASSES.insert_after("decompose", EDGE_PASSES[EDGE_PASSES.names.index("merge_views")])


def test_lists_of_passes_stay_as_they_are_when_edited():
    before = EDGE_PASSES.names
    shorter = EDGE_PASSES.skip("merge_views", "fold_constants")
    assert EDGE_PASSES.names == before and len(shorter) == len(before) - 2
    assert isinstance(EDGE_PASSES[2:4], PassList)


def test_a_failing_inserted_pass_is_named():
    def fails(program):
        raise IndexError("of my own")

    with pytest.raises(CompileError, match="the pass fails failed: IndexError: of my own"):
        to_edge(export(net(), INPUTS), passes=EDGE_PASSES.insert_after("merge_views", fails))


def test_a_pass_that_breaks_the_dialect_is_named_where_passes_are_verified(monkeypatch):
    def breaks(program):
        meta, specs = calls(program.graph_module)[-1].meta, program.graph_signature.output_specs
        meta["val"] = meta["val"].to(torch.complex128)
        specs.append(specs[0])
        return program

    monkeypatch.setenv("EDGECORE_VERIFY_PASSES", "1")
    for name in ("functionalize", "merge_views", "pack_weights"):
        with pytest.raises(CompileError, match="after the pass breaks: .*(its signature has|complex128)"):
            passes = EDGE_PASSES.insert_after(name, breaks)
            to_edge(export(net(), INPUTS), passes=passes).to_executorch()


def test_the_documentation_has_the_table_of_passes():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "make_pass_table.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
