"""The commands on `.ptd` and `.bpte` files."""

import json
import struct

from edgecore import format as fmt


def one_sentence(result, *parts):
    """Failed, and said why in one line on stderr."""
    lines = result.err.strip().splitlines()
    assert (result.status, len(lines)) == (1, 1), result.err
    assert all(part in lines[0] for part in parts), lines[0]


def bundle(relu, tmp_path, expected):
    def tensor(values):
        return fmt.Value(fmt.BundledTensor(fmt.ScalarType.FLOAT, [2, 3], struct.pack("<6f", *values), [0, 1]))

    given = [-1.0, 2.0, -3.0, 4.0, -5.0, 6.0]
    suite = fmt.BundledMethodTestSuite("forward", [fmt.BundledMethodTestCase([tensor(given)], [tensor(expected)])])
    path = tmp_path / "relu.bpte"
    path.write_bytes(fmt.write_bpte(fmt.BpteFile(method_test_suites=[suite], program=relu.read_bytes())))
    return path


GOOD = [0.0, 2.0, 0.0, 4.0, 0.0, 6.0]


def test_inspect_and_verify_weights(edgecore, ptd):
    facts = json.loads(edgecore("inspect", ptd, "--json").out)
    assert facts["data"] == [
        {"key": "layer.weight", "bytes": 8, "dtype": "float32", "shape": [2, 1], "dim_order": [0, 1]},
        {"key": "packed", "bytes": 3},
    ]
    text = edgecore("inspect", ptd).out
    assert "layer.weight" in text
    assert "data of a delegate" in text
    assert edgecore("verify", ptd).out == f"{ptd}: valid, follows the .ptd format\n"
    ptd.write_bytes(ptd.read_bytes()[:-1])
    one_sentence(edgecore("verify", ptd), str(ptd), "truncated")


def test_weights_are_no_program(edgecore, ptd, relu):
    one_sentence(edgecore("run", ptd), "weights.ptd")
    one_sentence(edgecore("inspect", ptd, "--html", "page.html"), "holds weights only")


def test_a_bundle_that_passes(edgecore, relu, tmp_path):
    path = bundle(relu, tmp_path, GOOD)
    result = edgecore("run", path)
    assert result.status == 0, result.err
    assert "ok    forward, case 0, output 0: max abs error 0, max rel error 0" in result.out
    assert "1 outputs passed, 0 failed; tolerance 1e-05 + 1e-05 * |expected|" in result.out
    facts = json.loads(edgecore("run", path, "--json").out)
    assert facts["passed"] is True
    assert facts["results"][0]["method"] == "forward"
    assert json.loads(edgecore("inspect", path, "--json").out)["test_cases"] == {"forward": 1}
    assert "test cases of forward: 1" in edgecore("inspect", path).out
    assert edgecore("verify", path).status == 0


def test_a_bundle_that_fails(edgecore, relu, tmp_path):
    path = bundle(relu, tmp_path, [0.0, 2.0, 0.0, 4.0, 0.0, 7.0])
    result = edgecore("run", path)
    one_sentence(result, str(path), "1 outputs failed")
    assert "FAILED forward, case 0, output 0: 1 of 6 elements are wrong" in result.out
    assert "the worst is [1, 2]: 6, expected 7" in result.out
    assert edgecore("run", path, "--atol", "1").status == 0
    assert edgecore("run", path, "--input", "x.npy").status == 2


def test_verify_compares_cases_and_program(edgecore, relu, tmp_path):
    bpte = fmt.read_bpte(bundle(relu, tmp_path, GOOD).read_bytes())
    suite = bpte.method_test_suites[0]
    suite.test_cases[0].inputs.append(fmt.Value(fmt.Int(3)))
    suite.test_cases[0].expected_outputs[0] = fmt.Value(
        fmt.BundledTensor(fmt.ScalarType.FLOAT, [3, 2], bytes(24), [0, 1])
    )
    bpte.method_test_suites.append(fmt.BundledMethodTestSuite("gone"))
    path = tmp_path / "wrong.bpte"
    path.write_bytes(fmt.write_bpte(bpte))
    result = edgecore("verify", path)
    assert result.status == 1
    assert "test case 0 of 'forward': 2 inputs, but the method has 1" in result.out
    assert "test case 0 of 'forward', expected output 0: it has sizes [3, 2], but the method has [2, 3]" in result.out
    assert "test cases of 'gone': the program has no such method" in result.out


def test_tolerances_are_for_bundles(edgecore, relu):
    assert edgecore("run", relu, "--rtol", "1").status == 2


def test_compile_with_external_data(edgecore, module, tmp_path):
    module(
        "import torch\n"
        "def make():\n"
        "    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)).eval(), (torch.ones(1, 4),)\n"
    )
    arguments = ("--external-data", "base", "--external-data", "1.*=head", "-o", tmp_path / "m.pte", "--json")
    result = edgecore("compile", "my_model_file:make", *arguments)
    assert result.status == 0, result.err
    assert json.loads(result.out)["data"] == [str(tmp_path / "base.ptd"), str(tmp_path / "head.ptd")]
    names = {path.name: set(fmt.read_ptd(path.read_bytes()).entries) for path in tmp_path.glob("*.ptd")}
    assert names == {"base.ptd": {"0.weight", "0.bias"}, "head.ptd": {"1.weight", "1.bias"}}
    facts = json.loads(edgecore("inspect", tmp_path / "m.pte", "--json").out)
    assert facts["external_data"] == ["0.bias", "0.weight", "1.bias", "1.weight"]
    verified = edgecore("verify", tmp_path / "m.pte", "--data", tmp_path / "base.ptd", "--data", tmp_path / "head.ptd")
    assert verified.status == 0, verified.err
    assert "4 weights are in .ptd files" in edgecore("verify", tmp_path / "m.pte").err
    assert (
        "'0.bias' is in none of the .ptd files"
        in edgecore("verify", tmp_path / "m.pte", "--data", tmp_path / "head.ptd").out
    )
    wrong = edgecore("compile", "my_model_file:make", "--external-data", "a/b", "-o", tmp_path / "m.pte")
    one_sentence(wrong, "'a/b' is no file name")
