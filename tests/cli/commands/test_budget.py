"""`edgecore budget`: exit status, and the first expectation."""

from __future__ import annotations


def test_a_budget_is_written_kept_and_broken(edgecore, relu, pte, tmp_path):
    expect = tmp_path / "expect.toml"
    assert edgecore("budget", relu, "--expect", expect, "--write").status == 0
    assert edgecore("budget", relu, "--expect", expect).out == f"{relu}: within the limits of {expect}\n"
    expect.write_text("[delegates]\nallowed = []\n")
    result = edgecore("budget", pte, "--expect", expect)
    assert result.status == 1
    assert f"edgecore: {pte}: backend FooBackend has 1 delegates, and allowed lists none" in result.err.splitlines()


def test_a_budget_that_cannot_be_checked_ends_with_2(edgecore, relu, tmp_path):
    expect = tmp_path / "expect.toml"
    result = edgecore("budget", relu, "--expect", expect)
    assert (result.status, len(result.err.splitlines())) == (2, 1)
    expect.write_text("[colour]\nred = 1\n")
    assert edgecore("budget", relu, "--expect", expect).status == 2
    result = edgecore("budget", relu, "--expect", expect, "--write")
    assert (result.status, "exists already" in result.err) == (2, True)
