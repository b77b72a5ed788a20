"""Networks on bare metal, on emulated boards, with Arm's Cortex-M33 and Cortex-M55."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from embedding import ROOT, Digits, needs, same_numbers

import edgecore
from edgecore import format as fmt

TOOLS = ("arm-none-eabi-g++", "qemu-system-arm")
PROCESSORS = ("cortex-m33", "cortex-m55")
BAD = ("newer", "truncated", "unlinked", "half", "large")
"""Files that a firmware cannot run."""


@pytest.fixture(scope="module")
def firmware() -> ModuleType:
    needs(*TOOLS)
    sys.path.insert(0, str(ROOT / "examples" / "firmware"))
    import firmware as module

    return module


def symbols_of(*files: Path, undefined: bool = False) -> set[str]:
    option = ["-u"] if undefined else []
    text = subprocess.run(["arm-none-eabi-nm", *option, *files], capture_output=True, text=True, check=True).stdout
    return set(text.split())


@pytest.mark.slow
def test_the_digits_net_runs_on_bare_metal(firmware: ModuleType, digits: Digits, tmp_path: Path) -> None:
    elf = firmware.build(tmp_path / "build", "cortex-m55", [digits.pte])
    (tmp_path / "digits.in").write_bytes(digits.image)
    status, text = firmware.emulate(elf, "cortex-m55", tmp_path)
    assert status == 0, text
    assert "digits: 1 runs; bytes of memory" in text
    same_numbers((tmp_path / "digits.out").read_bytes(), digits.output)

    symbols = symbols_of(elf)
    assert not {"malloc", "_malloc_r", "_Znwj", "_sbrk", "__cxa_throw"} & symbols
    # The platform's functions come from the application: nothing of the C library stands behind them.
    assert not {"printf", "fprintf", "puts", "_write", "abort", "clock", "clock_gettime", "getenv"} & symbols
    assert {"edgecore_register_platform", "edgecore_log"} <= symbols


@dataclass
class Network:
    """An integer network for digits, the images that were held back from its training, and what is right for them."""

    pte: Path
    inputs: np.ndarray
    labels: np.ndarray
    expected: np.ndarray
    fp32_accuracy: float

    def accuracy(self, outputs: np.ndarray) -> float:
        return float((outputs.argmax(1) == self.labels).mean())


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> list[Network]:
    """An MLP, that of the example, and a convnet with activations of 8 bits and of 16 bits."""
    sklearn = pytest.importorskip("sklearn.datasets")
    import torch
    from torch import nn

    folder = tmp_path_factory.mktemp("integers")
    data = sklearn.load_digits()
    labels = torch.tensor(data.target)
    example = runpy.run_path(str(ROOT / "examples" / "mcu-digits" / "digits.py"))["make_example"]()
    torch.manual_seed(0)
    convnet = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU(),
        nn.Conv2d(8, 16, 1), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    pictures = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    optimizer = torch.optim.Adam(convnet.parameters(), lr=1e-2)
    for _ in range(12):
        for batch in torch.randperm(1437).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(convnet(pictures[batch]), labels[batch]).backward()
            optimizer.step()
    convnet.append(nn.Softmax(-1))
    networks = []
    for name, model, images, recipe in (
        ("mlp", example.model, pictures.flatten(1), "int8"),
        ("convnet", convnet.eval(), pictures, "int8"),
        ("convnet16", convnet, pictures, "int16x8"),
    ):
        pte = folder / f"{name}.pte"
        held_back = images[1437:]
        edgecore.compile(
            model,
            (images[:1],),
            runtime="edgecore",
            quantize=recipe,
            memory="static",
            calibration=images[:1437:16].split(1),
        ).save(pte)
        method = edgecore.load(pte)
        outputs = np.concatenate([np.asarray(method.forward(image.numpy())) for image in held_back.split(1)])
        with torch.no_grad():
            exact = float((model(held_back).argmax(1) == labels[1437:]).float().mean())
        networks.append(Network(pte, held_back.numpy(), data.target[1437:], outputs, exact))
    return networks


@dataclass
class Ran:
    """A firmware with `networks`, and with files between them that it cannot run."""

    build: Path
    folder: Path
    status: int
    text: str


@pytest.fixture(scope="module", params=PROCESSORS)
def ran(
    request: pytest.FixtureRequest,
    firmware: ModuleType,
    networks: list[Network],
    tmp_path_factory: pytest.TempPathFactory,
) -> Ran:
    folder = tmp_path_factory.mktemp(request.param)
    whole = networks[0].pte.read_bytes()
    newer, truncated, unlinked, half, large = (folder / f"{name}.pte" for name in BAD)
    newer.write_bytes(whole[:4] + b"ET13" + whole[8:])
    truncated.write_bytes(whole[: len(whole) * 3 // 4])
    pte = fmt.read_pte(whole)
    pte.program.execution_plan[0].operators[0] = fmt.Operator("aten::erfinv", "out")
    unlinked.write_bytes(fmt.write_pte(pte))
    pte = fmt.read_pte(whole)
    for value in pte.program.execution_plan[0].values:
        if isinstance(value.val, fmt.Tensor) and value.val.scalar_type == fmt.ScalarType.FLOAT:
            value.val.scalar_type = fmt.ScalarType.HALF
    half.write_bytes(fmt.write_pte(pte))
    pte = fmt.read_pte(whole)
    for value in pte.program.execution_plan[0].values:
        if isinstance(value.val, fmt.Tensor) and value.val.allocation_info is not None:
            value.val.allocation_info.memory_offset_low += 4 << 20
    pte.program.execution_plan[0].non_const_buffer_sizes[1] += 4 << 20
    large.write_bytes(fmt.write_pte(pte))
    for network in networks:
        (folder / f"{network.pte.stem}.in").write_bytes(network.inputs.tobytes())
    good = ";".join(str(network.pte) for network in networks)
    files = [newer, truncated, networks[0].pte, unlinked, half, large, networks[1].pte, networks[2].pte]
    elf = firmware.build(folder / "build", request.param, files, f"-DKERNELS={good}")
    return Ran(elf.parent, folder, *firmware.emulate(elf, request.param, folder))


@pytest.mark.slow
def test_integer_networks_give_the_bits_of_this_machine(ran: Ran, networks: list[Network]) -> None:
    for network in networks:
        assert f"{network.pte.stem}: {len(network.inputs)} runs" in ran.text
        outputs = np.frombuffer((ran.folder / f"{network.pte.stem}.out").read_bytes(), np.float32)
        outputs = outputs.reshape(network.expected.shape)
        assert outputs.tobytes() == network.expected.tobytes()
        assert network.fp32_accuracy > 0.85
        assert network.accuracy(outputs) >= network.fp32_accuracy - 0.01


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["int8", "int16x8"])
@pytest.mark.parametrize("processor", PROCESSORS)
def test_layers_of_all_shapes_give_the_bits_of_this_machine(
    firmware: ModuleType, tmp_path: Path, processor: str, recipe: str
) -> None:
    import torch
    from torch import nn

    depth = 8200 if recipe == "int8" else 4200  # a quarter of the board's memory holds eight columns of inputs

    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.on_planes = nn.ModuleList([
                nn.Conv2d(6, 10, 3, padding=1), nn.Conv2d(6, 5, (2, 3), stride=2, padding=(0, 1)),
                nn.Conv2d(6, 6, 3, dilation=2, padding=2), nn.Conv2d(6, 9, 1), nn.Conv2d(6, 4, 3, groups=2),
                nn.Conv2d(6, 3, (9, 2), padding=(8, 3)), nn.ConvTranspose2d(6, 3, 3, stride=2),
                nn.Conv2d(6, 12, 3, padding=1, groups=6), nn.Conv2d(6, 6, 3, stride=2, padding=1, groups=6),
                nn.Conv2d(6, 6, (1, 5), stride=(1, 3), dilation=(1, 2), groups=6), nn.Linear(9, 7),
            ])  # fmt: skip
            self.flat, self.signal = nn.Linear(594, 5), nn.Conv1d(66, 3, 4, stride=2, padding=1)
            self.deep = nn.Conv2d(depth, 2, 1)
            self.pools = nn.ModuleList([nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.AdaptiveAvgPool2d((3, 4))])

        def forward(self, x: torch.Tensor, deep: torch.Tensor) -> list[torch.Tensor]:
            rows = x.flatten(2).tanh()
            results = [rows @ (rows * 2).mT, *(layer(x) for layer in [*self.on_planes, *self.pools])]
            results += [rows * rows.sigmoid() - rows, (rows * 5).softmax(-1), x.mean([2, 3])]
            return [*results, self.flat(x.flatten(1)), self.signal(x.flatten(1, 2)), self.deep(deep)]

    torch.manual_seed(0)
    inputs = (torch.randn(1, 6, 11, 9), torch.randn(1, depth, 1, 3))
    pte = tmp_path / "layers.pte"
    compiled = edgecore.compile(
        Layers().eval(), inputs, runtime="edgecore", quantize=recipe, memory="static", calibration=[inputs]
    )
    compiled.save(pte)
    operators = {operator.name for operator in fmt.read_pte(pte.read_bytes()).program.execution_plan[0].operators}
    names = ("add", "average", "convolution", "linear", "matmul", "mean", "mul", "softmax", "table")
    integer = {f"edgecore::{recipe.partition('x')[0]}_{name}" for name in names}
    moves = {"aten::view_copy", "aten::permute_copy", "aten::unsqueeze_copy", "aten::squeeze_copy"}
    moves.add("edgecore::int16_rescale")  # what `int8` does by a table
    assert integer <= operators
    assert {name for name in operators - integer - moves if not name.startswith("quantized_decomposed::")} == set()
    expected = edgecore.load(pte).forward(*(x.numpy() for x in inputs))
    (tmp_path / "layers.in").write_bytes(b"".join(x.numpy().tobytes() for x in inputs))
    elf = firmware.build(tmp_path / "build", processor, [pte])
    status, text = firmware.emulate(elf, processor, tmp_path)
    assert status == 0, text
    outputs = (tmp_path / "layers.out").read_bytes()
    assert outputs == b"".join(np.asarray(output).tobytes() for output in expected)


@pytest.mark.slow
def test_networks_need_little_memory_beside_their_tensors(ran: Ran, networks: list[Network]) -> None:
    for network in networks:
        line = next(line for line in ran.text.splitlines() if line.startswith(f"{network.pte.stem}: "))
        memory = {part: int(size) for part, size in re.findall(r"([a-z ]+) (\d+)[,.]", line.split("memory:")[1])}
        planned = memory.pop(" tensors") + memory.pop(" scratch")
        assert sum(memory.values()) <= planned // 10 + 8 * 1024
        assert memory[" inputs and outputs"] == 0


@pytest.mark.slow
def test_the_firmware_says_what_is_wrong_and_goes_on(ran: Ran) -> None:
    assert ran.status == 1
    sentences = dict(line.split(": ", 1) for line in ran.text.splitlines() if ": " in line)
    assert "'ET13'; this runtime reads ET12" in sentences["newer"]
    assert "truncated" in sentences["truncated"]
    assert "needs 1 operator that has no kernel: aten::erfinv.out" in sentences["unlinked"]
    assert "no memory for planned arena" in sentences["large"]
    assert "selected without its dtypes: quantized_decomposed::quantize_per_tensor.out for float16" in sentences["half"]
    for name in BAD:
        assert sentences[name].endswith(".")
    assert list(sentences) == ["newer", "truncated", "mlp", "unlinked", "half", "large", "convnet", "convnet16"]


@pytest.mark.slow
def test_integer_operators_need_no_floating_point(ran: Ran) -> None:
    if "cortex-m33" not in str(ran.folder):
        pytest.skip("a Cortex-M55 has a floating-point unit")
    objects = [path for name in ("int8_*.obj", "int16_*.obj", "integer_*.obj") for path in ran.build.rglob(name)]
    names = {
        "int8_elementwise",
        "int16_elementwise",
        "integer_matmul",
        "integer_average",
        "integer_convolution",
    }
    assert {f"{name}.cpp.obj" for name in names} <= {path.name for path in objects}
    needed = symbols_of(*objects, undefined=True)
    assert "__aeabi_ldivmod" in needed  # the names are those that GCC uses
    assert not [name for name in needed if name.startswith(("__aeabi_f", "__aeabi_d", "__aeabi_i2f", "__aeabi_i2d"))]


def test_a_stack_overflow_is_one_sentence(firmware: ModuleType, tmp_path: Path) -> None:
    board = ROOT / "examples" / "firmware" / "board"
    source = tmp_path / "main.c"
    source.write_text(
        "int sum(volatile int n) { return n == 0 ? 0 : n + sum(n - 1); }\nint main(void) { return sum(1 << 20); }\n"
    )
    for processor in PROCESSORS:
        elf = tmp_path / f"{processor}.elf"
        command = ["arm-none-eabi-gcc", f"-mcpu={processor}", "-mthumb", "-O0", "--specs=nosys.specs", "-nostartfiles"]
        command += ["-I", board.parent, "-L", board, "-T", board / f"{processor}.ld", "-o", elf, source]
        subprocess.run([*command, board / "startup.c", board / "semihosting.c"], check=True)
        status, text = firmware.emulate(elf, processor, tmp_path)
        assert (status, text) == (
            3,
            "The processor met a fault, such as a stack that is too small or a wrong address.\n",
        )


@pytest.mark.slow
def test_a_firmware_tells_models_that_it_runs_from_others(firmware: ModuleType, tmp_path: Path) -> None:
    import torch

    class Constant(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.arange(4.0))

        def forward(self) -> torch.Tensor:
            return self.weight * 2

    class Number(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
            return x + 1, 7

    class Repeat(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.repeat(1, 1, 1, 1, 2)

    class Joined(torch.nn.Module):
        def forward(self, empty: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([empty, x]) + 1

    class Shifted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.pad(x, (0, 2), value=3.0)

    long_name = "n" * 60
    names = ("a-b", "a_b", "repeat", "joined", "empty", long_name)  # two are the same C identifier
    files = [tmp_path / f"{name}.pte" for name in names]
    x, empty = torch.ones(4), torch.ones(0)
    models = (Constant(), Number(), Repeat(), Joined(), Shifted(), Shifted())
    for model, inputs, file in zip(models, ((), (x,), (x,), (empty, x), (empty,), (x,)), files, strict=True):
        edgecore.compile(model.eval(), inputs, runtime="edgecore", memory="static").save(file)
    for name in ("a_b", "repeat", "joined", long_name[:59]):
        (tmp_path / f"{name}.in").write_bytes(x.numpy().tobytes())
    elf = firmware.build(tmp_path / "build", "cortex-m55", files)
    status, text = firmware.emulate(elf, "cortex-m55", tmp_path)
    assert "a-b: 1 runs;" in text
    assert np.frombuffer((tmp_path / "a-b.out").read_bytes(), np.float32).tolist() == [0, 2, 4, 6]
    assert "a_b: Output 1 is not a tensor" in text
    assert "aten::repeat.out: the number of repeats is 5; at most 4 are supported" in text
    assert "joined: 1 runs;" in text and "empty: 1 runs;" in text
    assert np.frombuffer((tmp_path / "joined.out").read_bytes(), np.float32).tolist() == [2, 2, 2, 2]
    assert np.frombuffer((tmp_path / "empty.out").read_bytes(), np.float32).tolist() == [3, 3]
    assert f"{long_name}: Its name has more than 59 characters" in text
    assert status == 1
    with pytest.raises(SystemExit, match="Output 1 is not a tensor"):
        firmware.count_instructions(elf, "cortex-m55", "a_b", np.ones((2, 4), np.float32))


def test_two_models_of_one_name_are_an_error(firmware: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"Two files of PTE are named a\.pte"):
        firmware.build(tmp_path / "build", "cortex-m55", [tmp_path / "a.pte", tmp_path / "folder" / "a.pte"])


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["cortex-m85", "rp2350"])
def test_firmware_is_built_for_processors_without_an_emulator(
    firmware: ModuleType, digits: Digits, tmp_path: Path, processor: str
) -> None:
    needs("clang-16")
    elf = firmware.build(tmp_path / "build", processor, [digits.pte])
    command = ["arm-none-eabi-readelf", "--arch-specific", elf]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert ("Tag_MVE_arch" in text) == (processor == "cortex-m85")
    assert "Tag_ABI_VFP_args: VFP registers" in text
