#!/bin/sh
# torchao's convert_pt2e runs in-place operators of the model on the caller's own buffers.
#
# Expected: quantizing a model that counts its calls (`self.calls.add_(1)`) leaves the model as it is: the write is part
# of the exported graph, so `calls` is what it was before, and the quantized module counts from there.
# What happens (torch 2.13.0, torchao 0.18.0): `convert_pt2e` executes the `add_` while it folds constants, on the
# tensor of the caller's module, which has counted 1 afterwards. With the functional form of the same program, where the
# write is a `copy_` of a new value, the buffer stays 0.
# What to do: convert a functional program: torch.export.export(...).run_decompositions({}).module().
# edgecore: quantizes a functional copy of the program, with a state of its own (`tests/quantize/test_pt2e.py`).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=$("$here/environment" "$folder" torch==2.13.0 torchao==0.18.0 numpy==2.4.6)
cat > "$folder/run.py" <<'PY'
import copy
import warnings

import torch
import torchao
from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer

warnings.simplefilter("ignore")


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x):
        y = self.linear(x) + self.calls
        self.calls.add_(1)
        return y


class Int8(Quantizer):
    def annotate(self, model):
        value = QuantizationSpec(torch.int8, MinMaxObserver, -128, 127, torch.per_tensor_affine)
        weight = QuantizationSpec(torch.int8, PerChannelMinMaxObserver, -127, 127, torch.per_channel_symmetric, 0)
        for node in model.graph.nodes:
            if node.target is torch.ops.aten.linear.default:
                node.meta["quantization_annotation"] = QuantizationAnnotation(
                    {node.args[0]: value, node.args[1]: weight}, value, _annotated=True
                )
        return model

    def validate(self, model):
        pass


def count_after(functional):
    model, x = Counts().eval(), (torch.ones(2, 4),)
    program = torch.export.export(model, x)
    program = program.run_decompositions({}) if functional else program
    prepared = prepare_pt2e(program.module(), Int8())
    saved = {name: value.clone() for name, value in prepared.named_buffers()}
    prepared(*x)
    with torch.no_grad():
        model.calls.zero_()  # calibrating has counted, as it should; start again
        for name, value in prepared.named_buffers():
            if name.endswith("calls"):
                value.copy_(saved[name])
    convert_pt2e(prepared)
    return float(model.calls[0])


print("torch", torch.__version__, "torchao", torchao.__version__)
written, functional = count_after(False), count_after(True)
print("the caller's buffer after convert_pt2e: add_", written, "- functional program", functional)
assert written == 1.0 and functional == 0.0, "the behaviour has changed"
PY
"$python" "$folder/run.py"
