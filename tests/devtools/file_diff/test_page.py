"""The page of a comparison: its rows are the operators of both files, each with what is known about it."""

from __future__ import annotations

import torch

import edgecore
from edgecore.devtools.file_diff import page as diff_page
from edgecore.devtools.graph.operators import operators_of


class Sums(torch.nn.Module):
    """Two overloads of one operator, and two calls of one overload."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + 1) + torch.relu(x * 2)


def test_operators_of_one_name_are_rows_of_their_own() -> None:
    plain = edgecore.compile(Sums().eval(), (torch.randn(2, 4),))
    rows = diff_page._placed(operators_of(plain.pte))
    names = sorted(f"{name} {number}" for _, name, number in rows)
    assert {"add 0", "add 1", "relu 0", "relu 1"} <= set(names)
    assert len(rows) == len(operators_of(plain.pte))
    assert all(row.backend == "kernels" and not row.times for row in rows.values())


def test_a_row_has_a_difference_only_with_times_of_both_files() -> None:
    def row(*times: int) -> diff_page._Row:
        return diff_page._Row("kernels", "net.py:3", list(times))

    both = diff_page._compared("linear", "block", [row(*[100] * 12), row(*[150] * 12)], False)
    assert (both["a"], both["b"], both["difference"], both["verdict"]) == (100, 150, 0.5, "slower")
    few = diff_page._compared("linear", "block", [row(100, 100), row(150, 150)], False)
    assert (few["interval"], few["verdict"]) == (None, "cannot tell")
    one = diff_page._compared("linear", "block", [None, row(*[150] * 12)], False)
    assert (one["a"], one["difference"], one["verdict"], one["backend"]) == (None, None, "only in B", "none -> kernels")
    zero = diff_page._compared("linear", "block", [row(*[0] * 12), row(*[0] * 12)], False)
    assert (zero["difference"], zero["verdict"]) == (None, "cannot tell")
    unknown = diff_page._compared("linear", "block", [diff_page._Row("kernels", ""), diff_page._Row("Xnn", "")], False)
    assert (unknown["verdict"], unknown["backend"]) == ("", "kernels -> Xnn")


def test_a_module_has_the_sum_of_its_operators_in_each_run() -> None:
    keys = [("block", "linear", 0), ("block", "relu", 0), ("", "(runtime)", 0)]
    sides = [{key: diff_page._Row("kernels", "", [10 * place, 20]) for key in keys} for place in (1, 2)]
    block, rest = diff_page._modules(keys, sides)
    assert (block["name"], block["a"], block["b"], block["members"], block["rest"]) == ("block", 30, 40, [0, 1], False)
    assert (rest["name"], rest["a"], rest["members"], rest["rest"]) == ("(runtime)", 15, [2], True)


def test_a_fused_operator_stands_beside_the_operators_of_the_modules_in_it() -> None:
    a = [("net.0.0", "conv", 0), ("net.0.1", "relu", 0), ("net", "add", 0), ("net.1", "linear", 0)]
    b = [("net.0", "conv + relu", 0), ("net", "add", 0)]
    sides = [{key: diff_page._Row("kernels", "", [10]) for key in keys} for keys in (a, b)]
    rows = {row["name"]: row for row in diff_page._modules(list(dict.fromkeys([*a, *b])), sides)}
    assert {name: (row["a"], row["b"]) for name, row in rows.items()} == {
        "net.0": (20, 10), "net": (10, 10), "net.1": (10, None)
    }  # fmt: skip
