"""`verify` finds each kind of violation, and nothing in a sound file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

import edgecore.format as fmt
from edgecore.format import PteFile, verify


def sentences(pte: PteFile, **options: Any) -> str:
    return "\n".join(str(violation) for violation in verify(pte, **options))


def add_meta(pte: PteFile, profile: str = "executorch-1.5") -> fmt.Meta:
    delegates = [fmt.DelegateMeta(fmt.blob_digest(blob)) for blob in pte.delegate_blobs]
    meta = fmt.Meta(profile, "edgecore", "0", [fmt.MethodMeta("forward", delegates)])
    fmt.set_meta(pte, meta)
    return meta


def describe(pte: PteFile, dims: list[fmt.DimMeta], outputs: Sequence[list[fmt.DimMeta]] = ()) -> None:
    """Describe every input as 'x' with `dims`."""
    meta = add_meta(pte)
    meta.methods[0].inputs = [fmt.ArgumentMeta("x", dims) for _ in plan(pte).inputs]
    meta.methods[0].outputs = [fmt.ArgumentMeta("y", of_output) for of_output in outputs]
    fmt.set_meta(pte, meta)


def hash_meta(pte: PteFile, **hashes: Any) -> None:
    fmt.set_meta(pte, replace(add_meta(pte), **hashes))


def test_a_sound_file_has_no_findings(pte: PteFile) -> None:
    add_meta(pte)
    assert sentences(pte) == ""
    assert sentences(fmt.read_pte(fmt.write_pte(pte))) == ""


def test_named_data_may_be_a_part_of_the_constants(pte: PteFile) -> None:
    pte.named_data["tied"] = fmt.NamedBlob(bytes(pte.constants[2]), 16)
    read = fmt.read_pte(fmt.write_pte(pte))
    assert sentences(read) == ""
    named = next(one for one in read.segments if one.kind == "named" and one.size == 33)
    assert named.offset % 128 and named not in fmt.without_shared(read.segments)
    named = replace(named, size=read.segments[0].size)
    assert "it overlaps another segment" in "".join(
        map(str, fmt.verify(replace(read, segments=[read.segments[0], named])))
    )


def tensor(pte: PteFile, index: int) -> fmt.Tensor:
    value = pte.program.execution_plan[0].values[index].val
    assert isinstance(value, fmt.Tensor)
    return value


def plan(pte: PteFile) -> fmt.ExecutionPlan:
    return pte.program.execution_plan[0]


def call(pte: PteFile, arguments: Any) -> None:
    plan(pte).chains[0].instructions = [fmt.Instruction(arguments)]


MUTATIONS: list[tuple[Callable[[PteFile], Any], str]] = [
    (lambda p: setattr(p.program, "version", 1), "version 1 is not 0"),
    (lambda p: p.program.execution_plan.append(plan(p)), "'forward' occurs 2 times"),
    (lambda p: p.program.execution_plan.clear(), "it has no method"),
    (lambda p: plan(p).inputs.append(99), "inputs: value 99 does not exist; there are 14"),
    (lambda p: plan(p).outputs.append(-1), "outputs: value -1 does not exist"),
    (lambda p: plan(p).chains.clear(), "no chain"),
    (lambda p: plan(p).operators.append(fmt.Operator("my::op", "out")), "'my::op.out' is not an operator"),
    (lambda p: plan(p).operators.append(fmt.Operator("a" * 100)), "longer than 99 bytes"),
    (lambda p: plan(p).non_const_buffer_sizes.__setitem__(0, 4), "must start with 0"),
    (lambda p: plan(p).values.append(fmt.EValue()), "value 14: it has no type"),
    (lambda p: plan(p).values.append(fmt.EValue(fmt.TensorList([-1]))), "value -1 does not exist"),
    (lambda p: plan(p).values.append(fmt.EValue(fmt.IntList([0]))), "value 0 in its list is a Tensor, not a Int"),
    (lambda p: call(p, fmt.KernelCall(1, [0])), "instruction 0: operator 1 does not exist; there are 1"),
    (lambda p: call(p, fmt.DelegateCall(2, [])), "delegate 2 does not exist"),
    (lambda p: call(p, fmt.DelegateCall(0, [14])), "value 14 does not exist"),
    (lambda p: call(p, fmt.JumpFalseCall(0, 2)), "instruction 2 does not exist"),
    (lambda p: call(p, fmt.MoveCall(0, 77)), "value 77"),
    (lambda p: call(p, fmt.FreeCall(-2)), "value -2"),
    (lambda p: call(p, None), "instruction 0: it has no type"),
    (lambda p: tensor(p, 0).sizes.__setitem__(0, -1), "sizes .* are negative"),
    (lambda p: setattr(tensor(p, 0), "sizes", [2**30] * 3), "overflow"),
    (lambda p: setattr(tensor(p, 0), "dim_order", [0, 0]), "no permutation of 2 dims"),
    (lambda p: setattr(tensor(p, 0), "storage_offset", 4), "must be 0"),
    (lambda p: setattr(tensor(p, 1), "allocation_info", fmt.AllocationDetails.at(2, 0)), "memory id 2 does not exist"),
    (lambda p: setattr(tensor(p, 1), "allocation_info", fmt.AllocationDetails.at(1, 32)), "bytes 32 to 56 lie outside"),
    (lambda p: setattr(tensor(p, 1), "allocation_info", fmt.AllocationDetails.at(1, 2**40)), "lie outside arena 1"),
    (lambda p: setattr(tensor(p, 1), "allocation_info", fmt.AllocationDetails.at(1, 2)), "not a multiple of the elem"),
    (lambda p: setattr(tensor(p, 2), "data_buffer_idx", 3), r"constants\[3\] does not exist; there are 3"),
    (lambda p: setattr(tensor(p, 2), "sizes", [3]), r"constants\[1\] has 8 bytes, but sizes \[3\] need 12"),
    (lambda p: setattr(tensor(p, 3), "data_buffer_idx", 2), r"mutable\[2\] does not exist"),
    (lambda p: p.delegate_blobs.pop(), "refers to blob 1 of 1"),
    (lambda p: p.segments.append(fmt.Segment("named", 100, 1)), "does not start at a multiple of 128"),
    (lambda p: p.segments.extend([fmt.Segment("named", 128, 200), fmt.Segment("named", 256, 1)]), "overlaps"),
    (lambda p: add_meta(p, "edgecore"), "made for the target runtime 'edgecore', not for 'executorch-1.5'"),
    (lambda p: fmt.set_meta(p, fmt.Meta("executorch-1.5", methods=[fmt.MethodMeta("x")])), "has no such method"),
    (lambda p: (add_meta(p), p.delegate_blobs.__setitem__(0, b"other")), "SHA-256 of delegate 0"),
    (lambda p: describe(p, [], [[], []]), r"it describes 2 outputs, but the method has \d"),
    (lambda p: describe(p, [fmt.DimMeta()]), r"input 0 \('x'\): it describes 1 dims of 2"),
    (lambda p: describe(p, [fmt.DimMeta("", 7), fmt.DimMeta()]), "dim 0 has the minimum 7 and the maximum 2"),
    (lambda p: describe(p, [fmt.DimMeta("", 0, 1), fmt.DimMeta()]), "dim 0 has symbol 1, but only 0 symbols are known"),
    (lambda p: describe(p, [fmt.DimMeta("", 0, 0, 0), fmt.DimMeta()]), r"dim 0 is 0 \* n \+ 0"),
    (
        lambda p: hash_meta(p, constants_sha256=bytes(32)),
        "constants segment: its SHA-256 is [0-9a-f]{64}, not 0{64}: its",
    ),
    (lambda p: hash_meta(p, state_sha256=bytes(32)), "mutable segment: its SHA-256"),
    (lambda p: hash_meta(p, state_sha256=bytes(31)), "its SHA-256 in the metadata has 31 bytes"),
    (lambda p: hash_meta(p, data=[fmt.DataDigest("bias", bytes(32))]), "named data 'bias': its SHA-256 is"),
    (lambda p: hash_meta(p, data=[fmt.DataDigest("y"), fmt.DataDigest("x")]), "are not in ascending order"),
    (lambda p: p.named_data.update({fmt.META_KEY: fmt.NamedBlob(b"junk")}), "'edgecore.meta.v1': Meta"),
]


@pytest.mark.parametrize(("mutate", "sentence"), MUTATIONS, ids=[sentence for _, sentence in MUTATIONS])
def test_each_violation_is_found_and_named(pte: PteFile, mutate: Callable[[PteFile], Any], sentence: str) -> None:
    mutate(pte)
    with pytest.raises(AssertionError, match=sentence):
        assert sentences(pte) == ""


def test_the_stock_runtime_has_no_unbounded_shapes(pte: PteFile) -> None:
    tensor(pte, 0).shape_dynamism = fmt.TensorShapeDynamism.DYNAMIC_UNBOUND
    assert "value 0: executorch-1.5 runs no tensors without a maximum shape" in sentences(pte)
    assert sentences(pte, runtime="edgecore") == ""


def test_operators_beyond_the_target_runtime_are_found(pte: PteFile) -> None:
    plan(pte).operators[0] = fmt.Operator("edgecore::fast", "out")
    assert "edgecore::fast.out" in sentences(pte)
    assert sentences(pte, runtime="edgecore") == ""
    with pytest.raises(ValueError, match="unknown target runtime 'x'"):
        verify(pte, runtime="x")


def test_a_blob_that_a_checker_cannot_read_is_a_violation(pte: PteFile) -> None:
    def check(blob: fmt.Buffer, context: dict[str, Any]) -> list[str]:
        raise fmt.FormatError("the blob ends early")

    assert sentences(pte, checkers={"DemoBackend": check}).splitlines() == [
        f"method 'forward', delegate {index} (DemoBackend): the blob ends early" for index in range(2)
    ]


def test_checkers_see_blob_data_and_arguments(pte: PteFile) -> None:
    seen: list[tuple[bytes, dict[str, Any]]] = []

    def check(blob: fmt.Buffer, context: dict[str, Any]) -> list[str]:
        seen.append((bytes(blob), context))
        return ["node 3 is unknown"] if len(seen) == 1 else []

    assert sentences(pte, checkers={"DemoBackend": check}) == (
        "method 'forward', delegate 0 (DemoBackend): node 3 is unknown"
    )
    assert [blob for blob, _ in seen] == pte.delegate_blobs
    assert set(seen[0][1]["named_data"]) == {"weight", "bias"}
    values = plan(pte).values
    assert seen[0][1]["arguments"] == [[values[1], values[0]]] and seen[1][1]["arguments"] == []
