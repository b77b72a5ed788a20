"""Define the target of a partition (runtime and options), and convert it to compile specs for `preprocess`.

The specs have the keys of ExecuTorch's Vulkan backend, except `edgecore_runtime`, which ExecuTorch ignores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgecore.plugin import CompileSpec
from edgecore_vulkan.schema.graph import Layout, Storage

STOCK_LIMITS = (16384, 16384, 2048)
SMALL_LIMITS = (2048, 2048, 2048)
BUFFER_LIMIT = 128 * 1024 * 1024
"""Maximum number of elements of a tensor in a buffer."""

_RUNTIME = "edgecore_runtime"


@dataclass(frozen=True)
class Profile:
    """The target of a compilation: a runtime and options.

    Attributes:
        is_stock: The blob must run on executorch 1.5's delegate, so it uses only that delegate's operators and
            memories.
        force_fp16: Store float32 tensors as float16; inputs and outputs of the delegate stay float32.
        require_dynamic_shapes: Delegate only operators that support different sizes in each run.
        skip_bool_tensors: Do not delegate operators with boolean tensors.
        texture_limits: Maximum width, height and depth of a 3-d texture.
        buffer_limit: Maximum number of elements of a tensor.
        storage: Preferred storage: buffers or textures.
        layout: Preferred layout of tensors, for operators that do not need another.
        skip_memory_planning: Give each tensor memory of its own.
    """

    is_stock: bool = True
    force_fp16: bool = False
    require_dynamic_shapes: bool = False
    skip_bool_tensors: bool = False
    texture_limits: tuple[int, int, int] = STOCK_LIMITS
    buffer_limit: int = BUFFER_LIMIT
    storage: Storage = Storage.DEFAULT
    layout: Layout = Layout.DEFAULT
    skip_memory_planning: bool = False

    @property
    def holds_state(self) -> bool:
        """True if the delegate can keep mutable buffers. It keeps them in float32, so it cannot with `force_fp16`."""
        return not self.is_stock and not self.force_fp16

    @property
    def max_rank(self) -> int:
        """The maximum number of dims of a tensor."""
        return 4 if self.is_stock else 6

    def specs(self) -> list[CompileSpec]:
        """Return compile specs (key, bytes) for the values that differ from the defaults."""
        specs = [] if self.is_stock else [CompileSpec(_RUNTIME, b"edgecore")]
        for key in ("force_fp16", "require_dynamic_shapes", "skip_bool_tensors", "skip_memory_planning"):
            if getattr(self, key):
                specs.append(CompileSpec(key, b"\x01"))
        if self.texture_limits != STOCK_LIMITS:
            for axis, limit in zip("xyz", self.texture_limits, strict=True):
                specs.append(CompileSpec(f"texture_limits_{axis}", limit.to_bytes(4, "little")))
        if self.buffer_limit != BUFFER_LIMIT:
            specs.append(CompileSpec("buffer_limit", self.buffer_limit.to_bytes(8, "little")))
        if self.storage != Storage.DEFAULT:
            specs.append(CompileSpec("storage_type_override", self.storage.to_bytes(4, "little")))
        if self.layout != Layout.DEFAULT:
            specs.append(CompileSpec("memory_layout_override", self.layout.to_bytes(4, "little")))
        return specs

    @classmethod
    def of_specs(cls, specs: Sequence[CompileSpec]) -> Profile:
        """Return the `Profile` (target runtime and options) that compile specs describe; unknown keys are ignored."""
        values = {spec.key: spec.value for spec in specs}

        def number(key: str, default: int) -> int:
            return int.from_bytes(values[key], "little") if key in values else default

        small = number("small_texture_limits", 0)
        x, y, z = SMALL_LIMITS if small else STOCK_LIMITS
        return cls(
            is_stock=values.get(_RUNTIME) != b"edgecore",
            force_fp16=bool(number("force_fp16", 0)),
            require_dynamic_shapes=bool(number("require_dynamic_shapes", 0)),
            skip_bool_tensors=bool(number("skip_bool_tensors", 0)),
            texture_limits=(
                number("texture_limits_x", x),
                number("texture_limits_y", y),
                number("texture_limits_z", z),
            ),
            buffer_limit=number("buffer_limit", BUFFER_LIMIT),
            storage=Storage(number("storage_type_override", Storage.DEFAULT)),
            layout=Layout(number("memory_layout_override", Layout.DEFAULT)),
            skip_memory_planning=bool(number("skip_memory_planning", 0)),
        )
