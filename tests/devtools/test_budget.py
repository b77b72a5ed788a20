"""Limits for a file: those of `--write` hold, each other one is a sentence with both numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import edgecore
from edgecore import format as fmt
from edgecore.devtools import check_budget
from edgecore.devtools.budget import figures, read_expectation, write_expectation
from edgecore.errors import EdgecoreError

X = torch.ones(4, 8)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sort(self.body(x))[0]

    path = tmp_path_factory.mktemp("budget") / "net.pte"
    edgecore.compile(Net().eval(), (X,), backends=["xnnpack"]).save(path)
    return path


def limits(tmp_path: Path, text: str) -> Path:
    (tmp_path / "expect.toml").write_text(text)
    return tmp_path / "expect.toml"


def test_a_file_keeps_within_its_own_figures(file: Path, tmp_path: Path) -> None:
    path = limits(tmp_path, write_expectation(figures(file)))
    assert read_expectation(path)["operators"]["allowed"] == ["aten.topk.default"]
    assert check_budget(file, path) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[size]\nmax_file_bytes = 10", "the file has {file_bytes:,} bytes, and max_file_bytes allows 10"),
        ("[memory]\nmax_planned_bytes = 1", "the arenas of a method have {planned_bytes:,} bytes, and"),
        ("[memory]\nmax_delegate_bytes = 1", "delegates declare to need {delegate_bytes:,} bytes, and"),
        ("[operators]\nallowed = ['aten.add.*']", "aten.topk.default runs on kernels once, and allowed"),
        ("[operators]\nforbidden = ['aten.lin*']", "aten.linear.default (in body, "),
        ("[operators]\nmax_kernels = 0", "kernels compute 1 operators, and max_kernels allows 0"),
        (
            "[operators]\nmin_delegated = 0.9",
            "delegates compute 0.5000 of the operators, and min_delegated asks for 0.9",
        ),
        ("[delegates]\nallowed = ['Foo*']", "backend XnnpackBackend has 1 delegates, and allowed lists Foo*"),
        ("[delegates]\nmax_count = 0", "the file has 1 delegates, and max_count allows 0"),
    ],
)
def test_a_broken_limit_is_a_sentence_with_both_numbers(file: Path, tmp_path: Path, text: str, sentence: str) -> None:
    (found,) = check_budget(file, limits(tmp_path, text))
    assert found.startswith(sentence.format(**figures(file)))


def test_times_are_relative_to_another_file(file: Path, tmp_path: Path) -> None:
    (tmp_path / "net.pte").write_bytes(file.read_bytes())
    text = "[time]\nrelative_to = 'net.pte'\nruns = 10\nmax_ratio = "
    assert check_budget(file, limits(tmp_path, text + "1000"), arguments=lambda loaded, path: (X,)) == []
    (found,) = check_budget(file, limits(tmp_path, text + "0.0001"), arguments=lambda loaded, path: (X,))
    assert "times as long as one of net.pte" in found
    assert found.endswith("max_ratio allows 0.0001")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[size", "is no TOML"),
        ("[sizes]\na = 1", "'sizes' is no table of an expectation"),
        ("size = 3", r"'size' is a table, so its keys follow a line \[size\]; got 3"),
        ("[size]\nmax_bytes = 1", r"\[size\] has no key 'max_bytes'"),
        ("[size]\nmax_file_bytes = '1 MB'", "must be an integer of at least 0; got '1 MB'"),
        ("[size]\nmax_file_bytes = 1.5", "must be an integer of at least 0; got 1.5"),
        ("[size]\nmax_file_bytes = true", "must be an integer"),
        ("[operators]\nmin_delegated = nan", "must be a number of at least 0; got nan"),
        ("[operators]\nallowed = 'aten.add'", "must be a list of texts"),
        ("[time]\nmax_ratio = 1.0", "needs both relative_to and max_ratio"),
        ("[time]\nrelative_to = 'net.pte'\nmax_ratio = 1.0\nruns = 9", r"\[time\] runs must be at least 10; got 9"),
        (
            "[time]\nrelative_to = 'net.pte'\nmax_ratio = 1.0\nthreads = 0",
            r"\[time\] threads must be at least 1; got 0",
        ),
    ],
)
def test_an_expectation_with_an_error_is_one_sentence(file: Path, tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(EdgecoreError, match=message):
        check_budget(file, limits(tmp_path, text))


def test_a_limit_that_the_file_cannot_answer_is_an_error(file: Path, tmp_path: Path) -> None:
    pte = fmt.read_pte(file.read_bytes())
    del pte.named_data[fmt.META_KEY]
    (tmp_path / "other.pte").write_bytes(fmt.write_pte(pte))
    found = figures(tmp_path / "other.pte")
    assert (found["delegated"], found["delegate_bytes"], found["operators"]) == (None, None, None)
    assert check_budget(tmp_path / "other.pte", limits(tmp_path, write_expectation(found))) == []
    with pytest.raises(EdgecoreError, match="has no metadata of edgecore, which min_delegated needs"):
        check_budget(tmp_path / "other.pte", limits(tmp_path, "[operators]\nmin_delegated = 0.5"))
