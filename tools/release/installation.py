"""Installations of the packages in empty environments, and the examples that run there.

Each environment is new, and gets edgecore's packages from ``dist/publish`` only. The first environment has Python 3.11
and all packages, and runs all examples in Python and C++. The next ones, for each supported Python of this machine,
only run the files that the first has compiled. The wheels for 64-bit Arm are installed and run by an emulated Python
(``tests/native``).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import tomllib
from artifacts import PLATFORMS, PUBLISH, ROOT, run, sdists_of, source, wheel_for
from packages import EXECUTORCH, TORCH, TORCHVISION

WORK = ROOT / "build/release"
USUAL = "3.11"
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
SKETCH = """
import json, sys, torch, transformers, tokenizers
from pathlib import Path
folder = Path(sys.argv[1])
torch.manual_seed(0)
sizes = dict(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, head_dim=32, max_position_embeddings=128)
transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).save_pretrained(folder)
letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({letter: i for i, letter in enumerate(letters)}, []))
tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = tokenizers.decoders.ByteLevel()
tokenizer.save(str(folder / "tokenizer.json"))
"""
GENERATE = (
    "import edgecore_llm; print(edgecore_llm.from_pretrained('build/llm/tiny').generate('Hi', 8, ignore_eos=True))"
)


@dataclass(frozen=True)
class Environment:
    """A virtual environment, whose commands run in the folder WORK."""

    folder: Path

    @classmethod
    def new(cls, version: str) -> Environment:
        """Return an empty environment with a version of Python."""
        folder = WORK / f"python{version}"
        shutil.rmtree(folder, ignore_errors=True)
        run(f"python{version}", "-m", "venv", folder)
        return cls(folder)

    def python(self, *arguments: str | Path) -> str:
        """Run Python. Raises SystemExit with the output if it fails."""
        variables = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "CC", "CXX")}
        return run(self.folder / "bin/python", *arguments, folder=WORK, environment=variables)

    def install(self, *requirements: str | Path) -> None:
        """Install packages: edgecore's from the folder of the release, others from the package index."""
        self.python("-m", "pip", "install", "--quiet", "--find-links", PUBLISH, *requirements)


def install_all() -> None:
    """Install and run everything, from the wheels and from the sdists. Raises SystemExit at the first failure."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    run_everything(Environment.new(USUAL))
    for version in pythons_here():
        run_files(Environment.new(version))
    install_sdists(Environment.new(USUAL))
    run_on_arm()


def pythons_here() -> list[str]:
    """Return the versions of Python that edgecore supports and this machine has, from the oldest on."""
    return [version for version in VERSIONS if runs(f"python{version}")]


def runs(python: str) -> bool:
    """Return True if Python starts. pyenv has a command for each Python, and some of these commands start none."""
    if not shutil.which(python):
        return False
    return subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0


def run_everything(environment: Environment) -> None:
    """Install all packages for this machine with their compilers; run the code of README.md and of ``examples``."""
    here = [name for name, tags in PLATFORMS.items() if any(wheel_for(name, tag) for tag in tags if is_here(tag))]
    with_compilers = [name if name == "edgecore-coreml-standin" else f"{name}[compile]" for name in here]
    environment.install(TORCH, *with_compilers, *packages_of_examples())
    print(environment.python("-m", "edgecore", "backends"))
    script = WORK / "readme.py"
    script.write_text("\n".join(python_of_the_readme()))  # later blocks use names of earlier ones
    environment.python(script)
    (WORK / "sketch.py").write_text(SKETCH)
    environment.python(WORK / "sketch.py", WORK / "tiny")
    print(environment.python(ROOT / "examples/llm.py", WORK / "tiny", "Hi"))
    # Beside a torch for CPUs, torchvision lacks its native operators; transformers imports it if it is installed.
    environment.install("--no-deps", TORCHVISION)
    environment.python(ROOT / "examples/demo.py")
    environment.python(ROOT / "examples/qat.py")
    folder = environment.python("-m", "edgecore.plugin", "--cmake-dir").strip()
    options = ["-G", "Ninja", f"-DPTE={WORK / 'model.pte'}", f"-Dedgecore_DIR={folder}"]
    options.append(f"-DPython3_EXECUTABLE={environment.folder / 'bin/python'}")
    run("cmake", "-S", ROOT / "examples/cpp", "-B", WORK / "cpp", *options)
    run("cmake", "--build", WORK / "cpp")
    for example in ("custom-op", "hello-backend"):
        shutil.copytree(ROOT / "examples" / example, WORK / example)
        environment.install(WORK / example)


def packages_of_examples() -> list[str]:
    """Return the requirements of README.md and ``examples`` besides edgecore's, with the versions of the tests."""
    groups = tomllib.loads((source("edgecore-llm") / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    (transformers,) = (text for text in groups["test"] if text.startswith("transformers"))
    return [EXECUTORCH, transformers, "scikit-learn", "pillow", "rich"]


def is_here(tag: str) -> bool:
    """Return True if pip on this machine installs wheels of a platform tag."""
    return tag == "any" or (tag.startswith("manylinux") and tag.endswith("_x86_64"))


def python_of_the_readme() -> list[str]:
    """Return the blocks of Python code in README.md: the first compiles model.pte, the second runs it."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def run_files(environment: Environment) -> None:
    """Install what running files needs, and run the compiled files of the first environment."""
    environment.install("--only-binary=:all:", "edgecore", "edgecore-xnnpack", "edgecore-llm", "numpy")
    script = WORK / "run.py"
    script.write_text(python_of_the_readme()[1])
    environment.python(script)
    print(environment.python("-c", GENERATE))


def install_sdists(environment: Environment) -> None:
    """Build a wheel from each sdist, in environments of their own."""
    for package in PLATFORMS:
        options = ["--quiet", "--no-deps", "--find-links", PUBLISH, "--wheel-dir", WORK / "from-sdists"]
        environment.python("-m", "pip", "wheel", *options, *sdists_of(package))


def run_on_arm() -> None:
    """Install and run the wheels for 64-bit Arm in an emulated Python, and those for musl as programs."""
    variables = {**os.environ, "EDGECORE_ARM_WHEELS": str(PUBLISH), "OMP_NUM_THREADS": "1"}
    tests = ["-m", "pytest", "-q", "--full", "-c", "pyproject.toml", "tests/native/test_arm_wheels.py"]
    print(run(sys.executable, *tests, folder=ROOT, environment=variables).splitlines()[-1])
