"""The tokenizers of the C++ runner beside those of Python, which are those of the libraries."""

from __future__ import annotations

import json
import random
import unicodedata
from pathlib import Path

import llm_cpp
import llm_cpp_units
import llm_tokenizers
import pytest
import tokenizers
from tokenizers import decoders, normalizers, pre_tokenizers

from edgecore_llm.errors import TokenizerError
from edgecore_llm.tokenizer.open import open_tokenizer
from edgecore_llm.tokenizer.sentence_piece_json import convert

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SCRIPTS = [
    (0x20, 0x7E), (0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x17F), (0x300, 0x345), (0x370, 0x3FF), (0x400, 0x4FF),
    (0x5D0, 0x5EA), (0x620, 0x669), (0x900, 0x97F), (0xE01, 0xE5B), (0x1100, 0x11FF), (0x1680, 0x1680),
    (0x2000, 0x206F), (0x2150, 0x218B), (0x2460, 0x24FF), (0x3000, 0x30FF), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3),
    (0xF900, 0xFA6D), (0xFB00, 0xFB06), (0xFE00, 0xFE0F), (0x1D400, 0x1D7CB), (0x1F300, 0x1F64F), (0x20000, 0x20100),
]  # fmt: skip
"""Ranges of characters that all versions of Unicode of the last ten years know."""
WORDS = [
    "the ", "dog", " fox", "'s", "'LL", "it's", "  ", "   ", "\n", "\r\n", "\n\n", "\t", "123", "4567", "!!", "...", "\u2581", "<s>",
    "</s>", "<|end|>", "<|begin|>", "<0x41>", "Größe", "e\u0301", "Привет", "你好", "👋🏽", "\u200d", "\u180e", "\x85", "\x00", "\u017f",
]  # fmt: skip

pytestmark = pytest.mark.slow  # builds the C++ programs


def texts(count: int, seed: int = 0) -> list[str]:
    generator = random.Random(seed)
    found = ["", " ", "\n", "\u2581", *llm_tokenizers.SENTENCES[:4]]
    while len(found) < count:
        parts = []
        for _ in range(generator.randint(1, 12)):
            if generator.random() < 0.5:
                parts.append(generator.choice(WORDS))
            else:
                low, high = generator.choice(SCRIPTS)
                parts += [chr(generator.randint(low, high)) for _ in range(generator.randint(1, 5))]
        found.append("".join(parts))
    return found


def change(source: Path, path: Path, **parts: object) -> None:
    """Write a `tokenizer.json` with other parts: steps of the library, or added tokens."""
    tokenizer = tokenizers.Tokenizer.from_file(str(source))
    for name, part in parts.items():
        if name == "added":
            tokenizer.add_tokens(part)
        else:
            setattr(tokenizer, name, part)
    tokenizer.save(str(path))


def make(folder: Path) -> None:
    """Write a tokenizer of each format, and of each family's steps."""
    llm_tokenizers.byte_level(folder / "level.json")
    llm_tokenizers.byte_fallback(folder / "fallback.json")
    llm_tokenizers.byte_fallback(folder / "metaspace.json", has_metaspace=True)
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

    def split(pattern: str, behavior: str = "isolated", invert: bool = False) -> pre_tokenizers.PreTokenizer:
        step = pre_tokenizers.Split(tokenizers.Regex(pattern), behavior, invert)
        return pre_tokenizers.Sequence([step, level])

    source = folder / "level.json"
    added = [
        tokenizers.AddedToken("<extra>", normalized=True),
        tokenizers.AddedToken("e\u0301\u0301", normalized=True),
        tokenizers.AddedToken("dog", single_word=True, normalized=False),
        tokenizers.AddedToken("<both>", lstrip=True, rstrip=True, normalized=False),
    ]
    change(source, folder / "llama3.json", pre_tokenizer=split(LLAMA3))
    change(source, folder / "qwen.json", pre_tokenizer=split(QWEN2), normalizer=normalizers.NFC(), added=added)
    change(source, folder / "phi4.json", pre_tokenizer=split(GPT4O, "removed", True))
    digits = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    change(source, folder / "smollm.json", pre_tokenizer=pre_tokenizers.Sequence(digits))
    several = [pre_tokenizers.Digits(), split(r"[一-龥]+"), pre_tokenizers.ByteLevel(add_prefix_space=True)]
    several[1] = pre_tokenizers.Split(tokenizers.Regex(r"[一-龥]+"), "merged_with_previous")
    change(source, folder / "several.json", pre_tokenizer=pre_tokenizers.Sequence(several))
    fallback = folder / "fallback.json"
    gemma = {
        "normalizer": normalizers.Replace(" ", "\u2581"),
        "pre_tokenizer": pre_tokenizers.Split(" ", "merged_with_previous"),
        "decoder": decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]),
        "added": ["\n\n", "\u2581\u2581", tokenizers.AddedToken("<both>", lstrip=True, rstrip=True)],
    }
    change(fallback, folder / "gemma.json", **gemma)
    content = json.loads(fallback.read_text())
    for byte in (0xC3, 0x9F):  # these become unknown, and what follows with them
        del content["model"]["vocab"][f"<0x{byte:02X}>"]
    content["model"]["vocab"] = {piece: token for token, piece in enumerate(content["model"]["vocab"])}
    (folder / "unknown.json").write_text(json.dumps(content))
    tokenizers.Tokenizer.from_file(str(folder / "unknown.json")).save(str(folder / "unknown.json"))
    content["model"].update(unk_token=None, byte_fallback=False)  # unknown characters vanish
    content["model"]["vocab"][""] = len(content["model"]["vocab"])
    (folder / "vanishing.json").write_text(json.dumps(content))


NAMES = (
    "level.json", "fallback.json", "metaspace.json", "llama3.json", "qwen.json", "phi4.json", "smollm.json",
    "several.json", "gemma.json", "unknown.json", "vanishing.json", "llama2c.bin", "ranks.model",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizers")
    make(folder)
    pytest.importorskip("sentencepiece")
    llm_tokenizers.sentencepiece_model(folder / "piece.model")
    llm_tokenizers.llama2c_file(folder / "llama2c.bin", folder / "piece.model")
    pytest.importorskip("tiktoken")
    llm_tokenizers.tiktoken_ranks(folder / "ranks.model")
    return folder


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    return llm_cpp.programs(tmp_path_factory) / "units"


def compare(program: Path, path: Path, found: list[str]) -> None:
    ours, blobs = open_tokenizer(path), [text.encode() for text in found]
    for specials in (False, True):
        results = llm_cpp_units.encode(program, path, blobs, specials=specials)
        for text, (tokens, decoded) in zip(found, results, strict=True):
            expected = ours.encode(text, specials=specials)
            assert tokens == expected, (text, specials)
            assert decoded == ours.decode(expected, specials=specials), text


@pytest.mark.parametrize("name", NAMES)
def test_texts_have_the_tokens_of_python(name, folder, program):
    compare(program, folder / name, texts(3000))


PATTERNS = (
    r"^\s*\w?[a-z]+", r"^[a-z]+", r"[^\n]$", r"^$|.", r"\s++$|\s", r"(?m).+", r"(?m:.)+", r"(?i)the|ß", r"a(?i)b|c",
    r"(?i:ss|'s)", r"(?i:[sdmt]|ll|ve|re)", r"\p{N}{,3}", r"\p{N}{1,3}+", r"[a-z]{2}?", r"[a-z]{2,3}?", r"a\p{N}{,3}", r"\p{Han}+",
    r"[\p{Han}\p{Hiragana}]+", r"\p{^L}+", r"[[:punct:]]+", r"[^[:punct:]]+", r"[\S]+", r"[^\S\r\n]+", r"\d+", r"\D+", r"\w+", r"\b.",
    r"[\w\s]+", r"\h", r"\x41", r"\x{4F60}", r"(?<=t)h", r"(?<!t)h", r"(?>t|th)e", r"(t)h\1?", r"(?<n>t)h", r"\R", r"\X", r"\A.", r".\z", r".\Z",
    r"[a-z&&[^h]]+", r"[]a]+", r"[a\]]+", r"\/|\'|\.", r"[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+",
)  # fmt: skip
"""Patterns that Oniguruma and PCRE2 read alike, or not."""


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_splits_as_in_python_or_is_refused(pattern, folder, program, tmp_path):
    step = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    change(folder / "level.json", tmp_path / "a.json", pre_tokenizer=pre_tokenizers.Sequence([step, level]))
    reason = llm_cpp_units.failure(program, tmp_path / "a.json")
    if reason:
        assert f"the pattern {pattern} cannot be used: " in reason
        return
    lines = [
        "",
        "\n",
        "a\n",
        "\nthe",
        "the\ndog\n\n",
        "a\r\nb",
        "\u180e \u3000",
        "12345",
        "你好、世界。々",
        "$+<=>^`|~!",
        "ﬆ ß SS",
    ]
    compare(program, tmp_path / "a.json", [*lines, *texts(500)])


@pytest.mark.full
def test_a_million_texts_have_the_tokens_of_python(folder, program):
    for index, name in enumerate(NAMES):
        for seed in range(6):
            compare(program, folder / name, texts(14_000, 1 + 6 * index + seed))


def test_a_converted_model_of_sentencepiece_has_its_tokens(folder, program, tmp_path):
    convert(folder / "piece.model", tmp_path)
    ours, model = open_tokenizer(tmp_path), open_tokenizer(folder / "piece.model")
    assert (ours.vocabulary, ours.bos_id, ours.eos_ids) == (model.vocabulary, model.bos_id, model.eos_ids)
    assert (ours.adds_bos, ours.strips_first_space) == (model.adds_bos, model.strips_first_space)
    found = texts(3000)
    assert [ours.encode(text, bos=True) for text in found] == [model.encode(text, bos=True) for text in found]
    compare(program, tmp_path, found)


def test_a_model_of_another_kind_is_not_converted(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    with (tmp_path / "piece.model").open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(llm_tokenizers.SENTENCES), model_writer=file, model_type="unigram", vocab_size=120,
            hard_vocab_limit=False, minloglevel=2,
        )  # fmt: skip
    with pytest.raises(TokenizerError, match="cannot become a tokenizer.json: .* it is no BPE, or it changes texts"):
        convert(tmp_path / "piece.model", tmp_path)
    assert not (tmp_path / "tokenizer.json").exists()


@pytest.mark.parametrize("name", NAMES)
def test_the_facts_about_tokens_are_those_of_python(name, folder, program):
    ours = open_tokenizer(folder / name)
    first, ends, tokens = llm_cpp_units.facts(program, folder / name)
    bos = -1 if ours.bos_id is None else ours.bos_id
    assert first == [ours.vocabulary, bos, ours.adds_bos, ours.strips_first_space]
    assert ends == list(ours.eos_ids)
    for token, is_special, content in tokens:
        assert (is_special, content) == (ours.is_special(token), ours.token_bytes(token)), token


def test_bytes_that_are_no_utf8_count_as_u_fffd(folder, program):
    generator = random.Random(0)
    blobs = [bytes(generator.choices(b"a \xc3\xa9\xf0\x9f\x91\x8b\xe2\x80\xed\xa0\xff\x80", k=12)) for _ in range(2000)]
    for name in ("llama3.json", "gemma.json", "llama2c.bin"):
        ours = open_tokenizer(folder / name)
        found = llm_cpp_units.encode(program, folder / name, blobs)
        assert [tokens for tokens, _ in found] == [ours.encode(blob.decode("utf-8", "replace")) for blob in blobs]


def test_characters_are_composed_as_unicodedata_does(folder, program):
    # Every character with a decomposition, alone and between marks, through the normalizer of Qwen.
    changed = [chr(code) for code in range(0xA0, 0x30000) if not unicodedata.normalize("NFD", chr(code)) == chr(code)]
    generator = random.Random(0)
    found = changed[::7] + ["".join(generator.choices(changed, k=3)) + "\u0301\u0323" for _ in range(2000)]
    found = [unicodedata.normalize(generator.choice(["NFD", "NFC"]), text) for text in found]
    blobs = [text.encode() for text in found]
    decoded = [text for _, text in llm_cpp_units.encode(program, folder / "qwen.json", blobs)]
    assert decoded == [unicodedata.normalize("NFC", text) for text in found]


def test_the_files_beside_a_tokenizer_json_name_its_special_tokens(program, tmp_path):
    llm_tokenizers.byte_level(tmp_path / "tokenizer.json")
    configs = [
        {"bos_token": {"content": "<|begin|>"}, "eos_token": "<|end|>"},
        {"bos_token": "<|begin|>", "add_bos_token": True, "eos_token": None},
        {},
    ]
    for config in configs:
        for generation in ({}, {"eos_token_id": [3, 5], "bos_token_id": 7}, {"eos_token_id": 4}):
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
            (tmp_path / "generation_config.json").write_text(json.dumps(generation))
            ours = open_tokenizer(tmp_path)
            first, ends, _ = llm_cpp_units.facts(program, tmp_path)
            assert first[1:3] == [-1 if ours.bos_id is None else ours.bos_id, ours.adds_bos]
            assert ends == list(ours.eos_ids)
            ((tokens, _),) = llm_cpp_units.encode(program, tmp_path, [b"dog"], bos=True)
            assert tokens == ours.encode("dog", bos=True)


def test_a_file_that_puts_a_token_at_the_front_adds_it(program, tmp_path):
    llm_tokenizers.byte_level(tmp_path / "tokenizer.json")
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    token = tokenizer.token_to_id("<|begin|>")
    front = tokenizers.processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", token)])
    tokenizer.post_processor = tokenizers.processors.Sequence([tokenizers.processors.ByteLevel(), front])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<|begin|>"}))
    assert open_tokenizer(tmp_path).encode("dog", bos=True)[0] == token
    ((tokens, _),) = llm_cpp_units.encode(program, tmp_path, [b"dog"], bos=True)
    assert tokens == open_tokenizer(tmp_path).encode("dog", bos=True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", b"{", "is no tokenizer.json that can be used: it is not valid JSON."),
        ("tokenizer.json", b'{"model": {"type": "BPE"}}', "its model is not of the kind BPE"),
        ("tokenizer.json", b'{"model": {"type": "Unigram", "vocab": {}}}', "its model is not of the kind BPE but Unigram."),
        ("tokenizer.json", b'{"normalizer": {"type": "NFKC"}}', "a normalizer of the kind NFKC, which this version does not"),
        ("tokenizer.json", b'{"pre_tokenizer": {"type": "Punctuation"}}', "a pre-tokenizer of the kind Punctuation, which"),
        ("tokenizer.json", b'{"model": {"merges": [], "vocab": {"a": -1}}}', "a token has a wrong id."),
        ("tokenizer.json", b'{"model": {"merges": [], "vocab": {"a": 5000000}}}', "a token has a wrong id."),
        ("tokenizer.json", b'{"model": {"vocab": {"a": 1}, "merges": ["a b"]}}', "a merge has a token that is not there."),
        ("tokenizer.json", b'{"model": {"vocab": {"a": 1}, "merges": []}}', "its decoder is of an unknown kind: none."),
        ("tokenizer.model", b"nonsense", "tokenizer.model has no ranks of tiktoken; convert .*: edgecore llm tokenizer "),
        ("tokenizer.model", b"YQ== 0\nYg==", "Line 2 of .* is not of the form BASE64 RANK."),
        ("tokenizer.model", b"YQ== 0\nYg== 7\n", "does not have each rank from 0 on once; it may be truncated."),
        ("tokenizer.model", b"YQ== 0\nYg== 1\n", "has no rank for byte 0; it may be truncated."),
        ("tokenizer.bin", b"\1\0\0\0\0\0", "is truncated: it ends within token 0."),
        ("tokenizer.bin", b"\1\0\0\0\0\0\0\0\xff\xff\xff\xff", "token 0 has -1 bytes."),
        ("tokenizer.bin", b"\1\0\0\0\0\0\0\0\xff\xff\xff\x7f", "token 0 has 2147483647 bytes."),
        ("tokenizer.bin", b"", "it has 0 tokens."),
        ("other", b"", "has none of tokenizer.json, tokenizer.model, tokenizer.bin."),
    ],
)  # fmt: skip
def test_a_damaged_tokenizer_is_one_clear_sentence(name, content, message, program, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AssertionError, match=message):
        assert not llm_cpp_units.failure(program, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_bytes_never_crash_the_reader(name, folder, program, tmp_path):
    content, generator = (folder / name).read_bytes(), random.Random(name)
    path = tmp_path / name
    for _ in range(30):
        damaged = bytearray(content[: generator.choice([len(content), generator.randrange(len(content))])])
        for _ in range(generator.randint(0, 4)):
            if damaged:
                damaged[generator.randrange(len(damaged))] = generator.choice(b"\0\1\x7f\xff\x22{}[], 9")
        path.write_bytes(damaged)
        assert "\n" not in llm_cpp_units.failure(program, path)
