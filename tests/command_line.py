"""Results of commands, and bundles of test cases, for the tests of the command line."""

from __future__ import annotations

import struct

from edgecore import format as fmt


def one_sentence(result, *parts):
    """Failed, and said why in one line of ours on stderr."""
    lines = result.err.strip().splitlines()
    assert result.status == 1
    assert len(lines) == 1, result.err
    assert lines[0].startswith("edgecore: ")
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
