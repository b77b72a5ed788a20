"""Bundled programs: test cases in a file, back from the file, and the errors of wrong ones."""

import torch
from executorch.devtools import BundledProgram
from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch.devtools.bundled_program.serialize import (
    deserialize_from_flatbuffer_to_bundled_program,
    serialize_from_bundled_program_to_flatbuffer,
)
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings.portable_lib import (
    _load_bundled_program_from_buffer,
    _load_for_executorch_from_bundled_program,
)
from torch.export import export


class SampleModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", 3 * torch.ones(2, 2, dtype=torch.int32))
        self.register_buffer("b", 2 * torch.ones(2, 2, dtype=torch.int32))

    def forward(self, x, q):
        z = x.clone()
        torch.mul(self.a, x, out=z)
        y = x.clone()
        torch.add(z, self.b, out=y)
        torch.add(y, q, out=y)
        return y


def sample():
    return (torch.rand(2, 2) * 10 - 5).to(dtype=torch.int32)


# %% bundle test cases
model = SampleModel()
capture_input = (sample(), sample())
et_program = to_edge_transform_and_lower(export(export(model, capture_input).module(), capture_input)).to_executorch()
inputs = [[sample(), sample()] for _ in range(10)]
suites = [
    MethodTestSuite(
        method_name="forward",
        test_cases=[MethodTestCase(inputs=one, expected_outputs=(model(*one),)) for one in inputs],
    )
]
with open("bundled.bpte", "wb") as f:
    f.write(serialize_from_bundled_program_to_flatbuffer(BundledProgram(et_program, suites)))

# %% read a bundled program
with open("bundled.bpte", "rb") as f:
    again = deserialize_from_flatbuffer_to_bundled_program(f.read())
assert again.method_test_suites[0].method_name == "forward"
for case, one in zip(again.method_test_suites[0].test_cases, inputs, strict=True):
    assert all(map(torch.equal, case.inputs, one)) and torch.equal(case.expected_outputs[0], model(*one))
with open("bundled.bpte", "rb") as f:
    assert serialize_from_bundled_program_to_flatbuffer(again) == f.read()

# %% errors of wrong test cases
wrong = [MethodTestCase([torch.ones(2, 2), sample()], [sample()])]
for suite in (MethodTestSuite("missing_method", suites[0].test_cases), MethodTestSuite("forward", wrong)):
    try:
        BundledProgram(et_program, [suite])
    except Exception as error:
        print(error)
    else:
        raise AssertionError("a wrong suite was bundled")

# %% run the test cases of a bundled program
with open("bundled.bpte", "rb") as f:
    bundled_module = _load_bundled_program_from_buffer(f.read())
module = _load_for_executorch_from_bundled_program(bundled_module)
for index, one in enumerate(inputs):
    outputs = bundled_module.verify_result_with_bundled_expected_output("forward", index, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(outputs[0], model(*one))
    torch.testing.assert_close(module.run_method("forward", one)[0], model(*one))
for name, index in (("forward", len(inputs)), ("missing_method", 0)):
    try:
        bundled_module.verify_result_with_bundled_expected_output(name, index)
    except Exception as error:
        assert f"there is no test case {index} of the method {name!r}" in str(error)
    else:
        raise AssertionError("a test case that does not exist was verified")
