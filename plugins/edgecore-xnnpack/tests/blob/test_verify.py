"""Properties of a blob that the XNNPACK delegate of executorch 1.5 would refuse."""

from __future__ import annotations

from edgecore_xnnpack.blob.format import write_graph
from edgecore_xnnpack.blob.verify import incompatibilities
from edgecore_xnnpack.schema import graph as g


def blob_of(**fields: object) -> bytes:
    return write_graph(g.Graph(version="1", **fields))  # type: ignore[arg-type]


def tensor(**fields: object) -> g.Value:
    return g.Value(g.TensorValue(**fields))  # type: ignore[arg-type]


def test_a_weight_that_the_file_does_not_hold_is_named() -> None:
    blob = blob_of(constant_data=[g.ConstantDataOffset(), g.ConstantDataOffset(named_key="layer")])
    (sentence,) = incompatibilities(blob, {}, for_executorch=False)
    assert sentence == "constant 1 is the named data layer, which the file does not hold"
    assert incompatibilities(blob, {"layer": b""}, for_executorch=False) == []


def test_nodes_flags_and_ranks_that_executorch_lacks_are_named() -> None:
    blob = blob_of(
        nodes=[g.Node(g.ScaledDotProductAttention())],
        values=[tensor(flags=g.EXTERNAL_INPUT), tensor(flags=8), tensor(num_dims=7, dims=[1] * 7), g.Value()],
        num_externs=g.MAX_EXTERNALS + 1,
    )
    assert incompatibilities(blob, {}, for_executorch=False) == []
    text = "\n".join(incompatibilities(blob, {}, for_executorch=True))
    for part in (
        "4097 external values",
        "node 0: ",
        "value 1 has flags 0x8",
        "value 2 has 7 dim",
        "value 3 has no tensor",
    ):
        assert part in text
    assert "value 0" not in text
