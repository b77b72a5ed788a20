"""Damaged blobs: Python and the delegate check the header; only the SHA-256 in the file protects the model after it."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest
import torch

import edgecore
from edgecore.errors import ExecutionError, FormatError
from edgecore_openvino.blob.format import Argument, Kind, Payload, decode, encode
from edgecore_openvino.compiler import OpenvinoCompiler


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 4)

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(a))


@pytest.fixture(scope="module")
def pte(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("blob") / "model.pte"
    edgecore.compile(Model().eval(), (torch.randn(2, 3),), backends=["openvino"]).save(path)
    return path.read_bytes()


def test_a_blob_is_read_as_it_was_written() -> None:
    vary = Argument(torch.int64, ((0, 8), (3, 3)))
    payload = Payload(
        Kind.PORTABLE, (vary,), (Argument(torch.float32, ()),), "CPU", b"<net/>", b"1234", properties={"KEY": "f32"}
    )
    assert decode(encode(payload)) == payload
    assert OpenvinoCompiler().verify_blob(encode(payload), {}, runtime="edgecore") == []


DAMAGED = [
    (0, 0, "not written by edgecore-openvino"),
    (8, 2, "version 2"),
    (12, 2, "kind"),
    (12, 1, ""),  # the kind of a compiled model: OpenVINO itself rejects the XML text
    *((16 + 4 * field, 0xFFFFFFFF, "damaged") for field in range(3)),
    (20, 0, "damaged"),  # no outputs
    (28, 0xFFFFFFFF, "damaged"),  # a dtype
    (32, 9, "damaged"),  # a rank
    (36, 0xFFFF, "damaged"),  # a minimum size above the maximum
]


@pytest.mark.parametrize(("at", "value", "sentence"), DAMAGED)
def test_a_damaged_header_is_refused(pte: bytes, at: int, value: int, sentence: str) -> None:
    content, start = bytearray(pte), pte.index(b"OPENVINO")
    struct.pack_into("<I", content, start + at, value)
    with pytest.raises(ExecutionError, match="SHA-256|hash"):
        edgecore.load(bytes(content))
    with pytest.raises(ExecutionError, match=sentence):
        edgecore.load(without_hash(bytes(content)), trust=True)
    if sentence:
        with pytest.raises(FormatError, match=sentence):
            OpenvinoCompiler().verify_blob(bytes(content[start:]), {}, runtime="edgecore")


def without_hash(content: bytes) -> bytes:
    """Return the file with its metadata, which hold the hash, under an unknown key, as if it had none."""
    return content.replace(b"edgecore.meta.v1", b"edgecore.meta.v0")


def test_every_truncation_of_a_blob_is_refused() -> None:
    argument = Argument(torch.float32, ((2, 2),))
    whole = encode(Payload(Kind.PORTABLE, (argument,), (argument,), "CPU", b"<net/>", properties={"KEY": "f32"}))
    for size in range(len(whole)):
        with pytest.raises(FormatError):
            decode(whole[:size])


def test_damage_anywhere_leaves_the_process_alive(tmp_path, pte: bytes) -> None:
    """Check that damage to each 97th byte of the blob is rejected by the hash, in a child process, which may crash."""
    path = tmp_path / "model.pte"
    path.write_bytes(pte)
    code = f"""
import edgecore
content = open({str(path)!r}, "rb").read()
start, refused = content.index(b"OPENVINO"), 0
places = range(start, content.rindex(b"</net>"), 97)
for place in places:
    damaged = bytearray(content)
    damaged[place] ^= 0x81
    try:
        edgecore.load(bytes(damaged))
    except edgecore.errors.ExecutionError:
        refused += 1
print(refused == len(places) > 20)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True", done.stderr
