#!/bin/sh
# LiteRT's default kernels give square roots of numbers above 8.5e37 half too large, and NaN for 1 / sqrt(0).
#
# Expected: SQRT and RSQRT of float32 are right to a few units of the last place for every number, with the default
# resolver (XNNPACK) as with the built-in kernels, and RSQRT of 0 is infinity, as IEEE 754 says.
# What happens (ai-edge-litert 2.3.0, x86-64 with AVX512): up to 8.5e37 both are right. From there on RSQRT and SQRT are
# 1.5 times the right value: 1e38 gives 1.5e19 instead of 1e19. RSQRT of 0, and of numbers below 1.2e-38, is NaN. A step
# of Newton's method squares a number so small that the square, flushed to 0, falls out. The built-in and the reference
# kernels are right.
# What to do: scale before the root where numbers may be that large (a norm of large vectors); add an epsilon before
# RSQRT, or compare with the built-in resolver.
# edgecore: edgecore's XNNPACK takes other kernels for roots
# (`plugins/edgecore-xnnpack/tests/operators/test_elementwise.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" ai-edge-litert==2.3.0 flatbuffers==25.12.19 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
from importlib.metadata import version
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

if "avx512f" not in Path("/proc/cpuinfo").read_text():
    print("not on this processor: seen with AVX512, whose kernels others do not run")
    raise SystemExit(77)
X = np.array([0, 1e-38, 1.2e-38, 1, 8.4e37, 8.6e37, 1e38, 3.4e38], np.float32)


def model(operator):
    """Return a model of one operator."""
    tensors = [schema.TensorT(), schema.TensorT()]
    for tensor in tensors:
        tensor.shape, tensor.type, tensor.buffer = [len(X)], schema.TensorType.FLOAT32, 0
    code, call, graph, result = schema.OperatorCodeT(), schema.OperatorT(), schema.SubGraphT(), schema.ModelT()
    code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, operator)
    code.version, call.opcodeIndex, call.inputs, call.outputs = 1, 0, [0], [1]
    graph.tensors, graph.operators, graph.inputs, graph.outputs = tensors, [call], [0], [1]
    result.version, result.operatorCodes, result.subgraphs, result.buffers = 3, [code], [graph], [schema.BufferT()]
    builder = flatbuffers.Builder()
    builder.Finish(result.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def run(operator, resolver):
    interpreter = Interpreter(model_content=model(operator), experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], X)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


print("ai-edge-litert", version("ai-edge-litert"), "x:", X.tolist())
for operator in ("SQRT", "RSQRT"):
    default = run(operator, OpResolverType.AUTO)
    builtin = run(operator, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    print(f"{operator}: default {default.tolist()}")
    print(f"{operator}: built-in {builtin.tolist()}")
    np.testing.assert_allclose(default[2:5], builtin[2:5], rtol=1e-5)
    np.testing.assert_allclose(default[5:], 1.5 * builtin[5:], rtol=1e-3, err_msg="the behaviour has changed")
    right = [0, 1e-19] if operator == "SQRT" else [np.inf, 1e19]
    np.testing.assert_allclose(builtin[:2], right, rtol=1e-5, err_msg="the built-in kernel has changed")
assert np.isnan(default[:2]).all(), "the behaviour has changed"
PY
"$python" "$folder/run.py"
