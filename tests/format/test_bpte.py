"""`.bpte` files: what is written is read, and damage is one sentence."""

from __future__ import annotations

import contextlib
import random

import pytest

from edgecore import format as fmt


def sample() -> fmt.BpteFile:
    tensor = fmt.BundledTensor(fmt.ScalarType.SHORT, [1, 2], b"abcd", [1, 0])
    case = fmt.BundledMethodTestCase([fmt.Value(tensor), fmt.Value(fmt.Int(7))], [fmt.Value(tensor)])
    return fmt.BpteFile(2, [fmt.BundledMethodTestSuite("forward", [case])], b"a whole program")


def test_a_bundle_is_read_as_it_was_written() -> None:
    bpte = sample()
    buffer = fmt.write_bpte(bpte)
    assert buffer[4:8] == b"BP08"
    assert fmt.read_bpte(buffer) == bpte
    place = buffer.index(b"a whole program")
    assert place % 32 == 0, "the program must keep its own alignment"


def test_a_damaged_bundle_is_refused_in_one_sentence() -> None:
    with pytest.raises(fmt.FormatError, match="not a .bpte file"):
        fmt.read_bpte(b"12345678")
    bpte = sample()
    bpte.method_test_suites[0].test_cases[0].inputs[0].val.sizes = [1, 3]
    with pytest.raises(
        fmt.FormatError, match="method 'forward', case 0, input 0: it has 4 bytes, but sizes \\[1, 3\\] need 6"
    ):
        fmt.read_bpte(fmt.write_bpte(bpte))


def test_a_bundle_of_more_than_2_gib_is_refused(huge) -> None:
    bpte = sample()
    bpte.program = huge(3 << 30)
    with pytest.raises(fmt.FormatError, match="at most 2 GiB"):
        fmt.write_bpte(bpte)


def test_random_damage_of_weights_and_bundles_is_a_format_error() -> None:
    layout = fmt.TensorLayout(fmt.ScalarType.FLOAT, [2], [0])
    weights = fmt.write_ptd(fmt.PtdFile({"w": fmt.ExternalData(b"12345678", layout), "blob": fmt.ExternalData(b"abc")}))
    draw = random.Random(0)
    for buffer, read in (
        (weights, lambda b: fmt.verify_ptd(fmt.read_ptd(b))),
        (fmt.write_bpte(sample()), fmt.read_bpte),
    ):
        for _ in range(1500):
            damaged = bytearray(buffer)
            for _ in range(draw.randint(1, 4)):
                damaged[draw.randrange(len(damaged))] = draw.choice((0, 1, 127, 255, draw.randrange(256)))
            with contextlib.suppress(fmt.FormatError):
                read(bytes(damaged[: draw.choice((len(damaged), draw.randrange(len(damaged))))]))
