"""Model export and lowering: dynamic shapes, several methods, state, constant methods."""

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings import portable_lib
from torch.export import Dim, export


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

module = portable_lib._load_for_executorch("methods.pte")
image = torch.randn(1, 1, 20, 31)
torch.testing.assert_close(module.run_method("classify", [image])[0], model(image), atol=1e-5, rtol=1e-5)
assert [module.run_method("count", [torch.ones(2)])[0].tolist() for _ in range(2)] == [[1, 1], [2, 2]]
assert module.run_method("classes") == [10]
assert sorted(module.method_names()) == ["classes", "classify", "count"]
