"""Importing the compiler and its quantizers prints nothing of torchao."""

import subprocess
import sys


def test_importing_the_compiler_prints_no_messages_of_torchao():
    code = "import edgecore.pipeline.compile, edgecore.sdk.annotations, torchao.quantization"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "torchao" not in done.stderr and "KernelPreference" not in done.stderr, done.stderr
