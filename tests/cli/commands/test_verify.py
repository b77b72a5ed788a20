"""`edgecore verify` on programs, weights and bundles."""

from __future__ import annotations

from command_line import GOOD, bundle

from edgecore import format as fmt


def test_verify_reports_a_sound_file(edgecore, pte):
    result = edgecore("verify", pte, "--runtime", "edgecore")
    assert result.status == 0, result.out + result.err
    assert "valid, follows the rules of edgecore" in result.out
    assert "the blobs of FooBackend are not checked" in result.err
    assert "no package is known for it" in result.err


def test_verify_unknown_profile_is_wrong_usage(edgecore, pte):
    assert edgecore("verify", pte, "--runtime", "executorch-9").status == 2


def test_verify_compares_the_test_cases_of_a_bundle_with_its_program(edgecore, relu, tmp_path):
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
