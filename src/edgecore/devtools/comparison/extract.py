"""Write an operator as a standalone test case that the author of a backend can run without the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch.export import ExportedProgram

from edgecore.devtools.comparison.engine import Engine
from edgecore.devtools.comparison.rows import CompareRow
from edgecore.devtools.comparison.sites import depends_on_inputs
from edgecore.devtools.comparison.taps import DeviceProgram, Tap, tapped_program
from edgecore.errors import CompileError, WriteError
from edgecore.files import write_files
from edgecore.ir.program.copying import copy_program
from edgecore.numerics.metrics import measure
from edgecore.partition.extract import extract as extract_nodes
from edgecore.passes.pipeline import EDGE_PASSES
from edgecore.passes.quantized import is_quantize
from edgecore.pipeline import BundledProgram, MethodTestCase, MethodTestSuite

FILES = ("operator.pt2", "operator.bpte", "values.pt", "run.py", "README.txt")

_SCRIPT = '''"""Run the operator in PyTorch and on the device: {operator}."""

from pathlib import Path

import torch

import edgecore
from edgecore.sdk.torch_compat import quantized_operators

quantized_operators()  # quantized models call them
folder = Path(__file__).resolve().parent
values = torch.load(folder / "values.pt", weights_only=True)
operator = torch.export.load(folder / "operator.pt2").module()
device = edgecore.load(folder / "operator.bpte", trust=True).forward(*values["inputs"])
(eager,) = operator(*values["inputs"])

for name, value in (("PyTorch", eager), ("device", torch.as_tensor(device)), ("device, in the model", values["got"])):
    difference = (value.double() - values["expected"].double()).abs()
    print(f"{{name}}: {{int((difference != 0).sum())}} of {{difference.numel()}} elements differ, "
          f"at most by {{float(difference.max()) if difference.numel() else 0.0:.6g}}")
'''

_README = """{operator}, of the module {module} ({source}), on {backend}

{error}

run.py          runs the operator in PyTorch and on the device, and prints the differences
operator.pt2    the operator, for torch.export.load
operator.bpte   the operator, compiled, with the inputs and the expected output: edgecore run operator.bpte
values.pt       a dict for torch.load: "inputs" of the device, the output "expected" of PyTorch, and "got" of the device

{isolated}
"""


def extract(engine: Engine, row: CompareRow, folder: str | Path) -> list[Path]:
    """Write a row's operator as a test case: a program, the operator's inputs on the device, and the device's result.

    Args:
        engine: Runs the model on the device and in PyTorch.
        row: The row of the operator in the comparison.
        folder: The folder to write to; it is created if it does not exist.

    Returns:
        The paths of `operator.pt2`, `operator.bpte`, `values.pt`, `run.py` (which runs them), and `README.txt`.

    Raises:
        CompileError: The operator cannot be compiled on its own, or a value cannot be read from the device.
        WriteError: A file cannot be written.
    """
    number = row.local.sample
    program, inputs = operator_program(engine, row)
    device = device_values(engine, row, number, inputs)
    operands = [device[name] for name in inputs]
    expected = _expected(program, operands)
    compiled = engine.compile(program, EDGE_PASSES)
    isolated = DeviceProgram(compiled, {}, engine.place).run(tuple(operands))[0]
    got = device[row.site.tap]
    is_same = measure(got, isolated).differing == 0
    text = {
        "operator": row.operator,
        "module": row.module or "(none)",
        "source": row.source or "line unknown",
        "backend": row.backend,
        "error": str(row),
        "isolated": "On its own the operator computes what it computed in the model."
        if is_same
        else "On its own the operator computes something else than in the model: the cause is what the backend fuses.",
    }
    target = Path(folder)
    paths = [target / name for name in FILES]
    suite = MethodTestSuite("forward", [MethodTestCase(operands, [expected])])
    try:
        target.mkdir(parents=True, exist_ok=True)
        BundledProgram(compiled, [suite]).save(paths[1])
        write_files(
            {
                paths[0]: lambda file: torch.export.save(program, file),
                paths[2]: lambda file: torch.save({"inputs": operands, "expected": expected, "got": got}, file),
                paths[3]: _SCRIPT.format(**text),
                paths[4]: _README.format(**text),
            }
        )
    except OSError as error:
        raise WriteError(f"the test case cannot be written: {error}") from error
    return paths


def operator_program(engine: Engine, row: CompareRow) -> tuple[ExportedProgram, list[str]]:
    """Copy a row's nodes into a program of their own; return this program and the names of its input nodes.

    Where the operator reads a quantized value, the new program takes the dequantized value and quantizes it itself.
    Every value that the model can produce is then a valid input.
    """
    only = Tap([row.site.tap], only=True)(copy_program(engine.edge))
    by_name = {node.name: node for node in only.graph.nodes}
    names = {node.name for node in row.group.nodes} | {row.site.tap}
    names |= {node.name for node in row.group.inputs if is_quantize(node)}
    dependent = depends_on_inputs(only)
    for node in reversed(list(only.graph.nodes)):  # add the nodes that compute constants, such as dequantized weights
        if node.name in names:
            sources = (source for source in node.all_input_nodes if source.op == "call_function")
            names |= {source.name for source in sources if source not in dependent}
    nodes = [node for node in only.graph.nodes if node.name in names]
    extracted = extract_nodes(only, nodes, ())
    if [node.name for node in extracted.outputs] != [by_name[row.site.tap].name]:
        raise CompileError(f"{row.operator} ({row.site.tap}) cannot be cut out: other operators read parts of it")
    return extracted.program, [node.name for node in extracted.inputs]


def device_values(engine: Engine, row: CompareRow, number: int, inputs: Sequence[str]) -> dict[str, torch.Tensor]:
    """Return, by node name, the device's values of the nodes `inputs` and of the row's operator, for one sample.

    The device cannot return the value that a quantize node reads. For such an input, return the value of the dequantize
    node after that quantize node.
    """
    wanted = {row.site.tap, *(_tap_of(engine, name) or name for name in inputs)}
    placeholders = [node for node in engine.edge.graph.nodes if node.op == "placeholder"]
    users = set(engine.edge.graph_signature.user_inputs)
    user_inputs = (node.name for node in placeholders if node.name in users)
    device = dict(zip(user_inputs, map(torch.as_tensor, engine.samples[number]), strict=True))
    seen = engine.taps.values(engine.samples[number])
    if missing := [site.tap for site in engine.sites if site.tap in wanted and site.tap not in seen]:
        program = tapped_program(engine.compile_tapped, Tap(missing, only=True), engine.place)
        results = program.run(engine.samples[number]) if program is not None else []
        seen |= {name: results[index] for name, index in program.index.items()} if program is not None else {}
    device |= seen
    for name in inputs:
        tap = _tap_of(engine, name)
        if tap in seen:
            device[name] = seen[tap]
    if lacking := sorted({row.site.tap, *inputs} - set(device)):
        raise CompileError(f"{row.operator} ({row.site.tap}) cannot be cut out: {lacking[0]} is not seen on the device")
    return device


def _tap_of(engine: Engine, name: str) -> str | None:
    return next((site.tap for site in engine.sites if name in (site.tap, site.source, site.value)), None)


def _expected(program: ExportedProgram, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        (value,) = program.module(check_guards=False)(*inputs)
    assert isinstance(value, torch.Tensor)
    return value
