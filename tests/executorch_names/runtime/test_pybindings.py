"""The functions of ExecuTorch's Python bindings: what they load has values and times to write, and weights of its own."""

from __future__ import annotations

import pytest
import torch

import edgecore
from edgecore.devtools import Inspector
from edgecore.errors import ExecutionError
from edgecore.executorch.exir.scripts.config import ExecutorchBackendConfig
from edgecore.executorch.runtime.pybindings import (
    _load_bundled_program_from_buffer,
    _load_for_executorch,
    _load_for_executorch_from_buffer,
    _load_for_executorch_from_bundled_program,
)
from edgecore.pipeline import serialize_from_bundled_program_to_flatbuffer

X = torch.linspace(-1, 1, 4)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model, and the paths of its file, its weights and its test cases."""
    torch.manual_seed(0)
    model, folder = torch.nn.Linear(4, 2).eval(), tmp_path_factory.mktemp("saved")
    config = ExecutorchBackendConfig(external_constants=True)
    program = edgecore.to_edge(torch.export.export(model, (X,))).to_executorch(config)
    suite = edgecore.MethodTestSuite("forward", [edgecore.MethodTestCase((X,), model(X))])
    bundled = serialize_from_bundled_program_to_flatbuffer(edgecore.BundledProgram(program, [suite]))
    pte, ptd = program.save(folder / "model.pte")
    (folder / "model.bpte").write_bytes(bundled)
    return model, pte, ptd, folder / "model.bpte"


LOADED = {
    "path": lambda pte, ptd, bpte, **options: _load_for_executorch(program_path=pte, data_path=ptd, **options),
    "buffer": lambda pte, ptd, bpte, **options: _load_for_executorch_from_buffer(
        pte.read_bytes(), data_map_buffer=ptd.read_bytes(), **options
    ),
    "bundled": lambda pte, ptd, bpte, **options: _load_for_executorch_from_bundled_program(
        _load_bundled_program_from_buffer(bpte.read_bytes()), data_map_buffer=ptd.read_bytes(), **options
    ),
}


@pytest.mark.parametrize("way", LOADED)
def test_times_and_values_are_recorded_if_a_script_asks_for_them(way, saved, tmp_path):
    model, *paths = saved
    dump, values = str(tmp_path / "runs.etdp"), str(tmp_path / "values.bin")
    silent = LOADED[way](*paths)
    torch.testing.assert_close(silent.forward((X,)), [model(X)])
    with pytest.raises(ExecutionError):
        silent.write_etdump_result_to_file(dump)
    loaded = LOADED[way](*paths, enable_etdump=True, debug_buffer_size=1 << 16)
    loaded.run_method("forward", (X,))
    loaded.write_etdump_result_to_file(dump, debug_buffer_path=values)
    blocks = Inspector(etdump_path=dump, debug_buffer_path=values).event_blocks
    (output,) = (block.run_output[0] for block in blocks if block.run_output)
    torch.testing.assert_close(output, model(X))
    assert any(event.perf_data for block in blocks for event in block.events)
