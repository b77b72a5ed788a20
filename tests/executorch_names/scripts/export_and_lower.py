"""Model export and lowering: dynamic shapes, several methods, state, constant methods."""

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.extension.pybindings import portable_lib
from executorch.runtime import Runtime
from torch.export import Dim, export


# %% models
class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seq = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d((1, 1)))
        self.linear = torch.nn.Linear(4, 10)

    def forward(self, x):
        return self.linear(torch.flatten(self.seq(x), 1))


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x):
        self.steps.add_(1)
        return x * self.steps


# %% several methods, dynamic shapes, constant methods
model = Classifier().eval()
dynamic_shapes = {"x": {2: Dim("h", min=8, max=64), 3: Dim("w", min=8, max=64)}}
lowered = to_edge_transform_and_lower(
    {
        "classify": export(model, (torch.randn(1, 1, 16, 16),), dynamic_shapes=dynamic_shapes),
        "count": export(Counter(), (torch.ones(2),)),
    },
    partitioner={"classify": [XnnpackPartitioner()]},
    constant_methods={"classes": 10},
).to_executorch()
lowered.save("methods.pte")

# %% run methods by their names
module = portable_lib._load_for_executorch("methods.pte")
image = torch.randn(1, 1, 20, 31)
torch.testing.assert_close(module.run_method("classify", [image])[0], model(image), atol=1e-5, rtol=1e-5)
assert [module.run_method("count", [torch.ones(2)])[0].tolist() for _ in range(2)] == [[1, 1], [2, 2]]
assert module.run_method("classes") == [10]
assert sorted(module.method_names()) == ["classes", "classify", "count"]

# %% lower with dynamic sizes and run
exported_program = export(model, (torch.randn(1, 1, 16, 16),), dynamic_shapes=dynamic_shapes)
executorch_program = to_edge_transform_and_lower(exported_program, partitioner=[XnnpackPartitioner()]).to_executorch()
with open("model.pte", "wb") as file:
    file.write(executorch_program.buffer)
input_tensor = torch.randn(1, 1, 32, 32)
(output,) = Runtime.get().load_program("model.pte").load_method("forward").execute([input_tensor])
torch.testing.assert_close(output, model(input_tensor), atol=1e-5, rtol=1e-5)

# %% a program and its weights apart
apart = to_edge_transform_and_lower(exported_program).to_executorch(
    ExecutorchBackendConfig(external_constants=lambda node: "model")
)
apart.save("apart.pte")
apart.write_tensor_data_to_file(".")
outputs = portable_lib._load_for_executorch("apart.pte", "model.ptd").forward([input_tensor])
torch.testing.assert_close(outputs[0], model(input_tensor), atol=1e-5, rtol=1e-5)


# %% methods of one module, by wrappers
class Codec(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.there, self.back = torch.nn.Linear(4, 2), torch.nn.Linear(2, 4)

    def encode(self, x):
        return self.there(x)

    def decode(self, y):
        return self.back(y)


class EncodeWrapper(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *args, **kwargs):
        return self.model.encode(*args, **kwargs)


class DecodeWrapper(EncodeWrapper):
    def forward(self, *args, **kwargs):
        return self.model.decode(*args, **kwargs)


codec, x = Codec().eval(), torch.randn(1, 4)
encode_ep = export(EncodeWrapper(codec), (x,))
decode_ep = export(DecodeWrapper(codec), (torch.randn(1, 2),))
to_edge_transform_and_lower({"encode": encode_ep, "decode": decode_ep}).to_executorch().save("codec.pte")
codes = Runtime.get().load_program("codec.pte")
(middle,) = codes.load_method("encode").execute([x])
torch.testing.assert_close(codes.load_method("decode").execute([middle])[0], codec.decode(codec.encode(x)))
