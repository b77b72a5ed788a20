"""`edgecore bundle`: test cases from a model, for a file that it was compiled to."""

from __future__ import annotations

import json

import numpy as np
from command_line import one_sentence

SOURCE = """
import torch

class Scaled(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x, y):
        self.count.add_(1)
        return {"product": x * y * self.factor + self.count}

def scaled(): return Scaled(2).eval(), (torch.ones(2), torch.ones(2))
def other(): return Scaled(3).eval(), (torch.ones(2), torch.ones(2))
"""


def test_a_bundle_has_the_outputs_of_the_model_in_pytorch(edgecore, module, tmp_path):
    module(SOURCE)
    assert edgecore("compile", "my_model_file:scaled", "-o", "m.pte").status == 0
    result = edgecore("bundle", "my_model_file:scaled", "m.pte")
    assert (result.status, result.err) == (0, "") and "m.bpte: " in result.out and "1 test case" in result.out
    assert edgecore("run", "m.bpte").status == 0
    (tmp_path / "samples").mkdir()
    for index in range(3):
        given = [np.full(2, index + k, np.float32) for k in range(2)]
        np.savez(tmp_path / "samples" / f"{index}.npz", x=given[0], y=given[1])
    result = edgecore("bundle", "my_model_file:scaled", "m.pte", "--samples", "samples", "-o", "three.bpte")
    assert "3 test cases" in result.out and result.err == ""
    report = json.loads(edgecore("run", "three.bpte", "--json").out)
    assert report["passed"] and len(report["results"]) == 3


def test_outputs_of_another_model_are_noticed(edgecore, module):
    module(SOURCE)
    assert edgecore("compile", "my_model_file:scaled", "-o", "m.pte").status == 0
    result = edgecore("bundle", "my_model_file:other", "m.pte")
    assert result.status == 0 and "1 output differs from those of my_model_file:other" in result.err
    one_sentence(
        edgecore("bundle", "my_model_file:other", "m.pte", "--method", "nope"),
        "test cases of 'nope': the program has no such method",
    )
    one_sentence(edgecore("bundle", "my_model_file:other", "m.pte", "-o", "no/m.bpte"), "the folder no does not exist")


def test_weights_in_other_files_are_options(edgecore, module, tmp_path):
    module("""
import torch

def linear():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 4).eval(), (torch.ones(1, 4),)

def dropout(): return torch.nn.Dropout(), (torch.ones(1, 4),)
""")
    assert edgecore("compile", "my_model_file:linear", "-o", "m.pte", "--external-data", "*=w").status == 0
    result = edgecore("bundle", "my_model_file:linear", "m.pte", "--data", "w.ptd")
    assert (result.status, result.err) == (0, "")
    result = edgecore("bundle", "my_model_file:linear", "m.pte")
    assert result.status == 0 and "m.bpte is not checked here: " in result.err
    one_sentence(edgecore("bundle", "my_model_file:dropout", "m.pte"), "Dropout is in training mode")
    one_sentence(edgecore("bundle", "my_model_file:linear", "w.ptd"), "w.ptd: a .pte or .bpte file is needed")
    assert "m.bpte has test cases already" in edgecore("bundle", "my_model_file:linear", "m.bpte").err
    one_sentence(edgecore("bundle", "my_model_file:linear", "m.pte", "--samples", "no"), "no is not a folder with .npy")
    (tmp_path / "wide").mkdir()
    np.save(tmp_path / "wide" / "0.npy", np.ones((1, 5), np.float32))
    one_sentence(
        edgecore("bundle", "my_model_file:linear", "m.pte", "--samples", "wide"),
        "the model cannot be run with the inputs of test case 0: mat1 and mat2 shapes cannot be multiplied",
    )
