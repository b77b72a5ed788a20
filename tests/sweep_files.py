"""A module with small models and a sweep over them, for the tests of sweeps."""

from __future__ import annotations

NETS = """
import os, signal, sys, time
import torch

def small():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)]
    return torch.nn.Sequential(*layers).eval(), (torch.randn(1, 64),)

def pooling():
    return torch.nn.AvgPool1d(2).eval(), (torch.randn(1, 4, 8),)

def samples():
    return [torch.randn(1, 64, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]

def accuracy(run):
    return float(run(torch.ones(1, 64)).sum())

def hungry():
    kept = []
    while True:
        kept.append(bytearray(b"x" * (64 << 20)))

def hangs():
    time.sleep(1000)

def dies():
    os.kill(os.getpid(), signal.SIGSEGV)

def chatty():
    sys.stdout.write("x" * (8 << 20))
    return small()
"""

MODEL = {"source": "sweep_nets:small", "calibration": "sweep_nets:samples", "accuracy": "sweep_nets:accuracy"}


def write_nets(folder, monkeypatch):
    """Write `sweep_nets.py` into a folder, which becomes the current one."""
    (folder / "sweep_nets.py").write_text(NETS)
    monkeypatch.chdir(folder)
