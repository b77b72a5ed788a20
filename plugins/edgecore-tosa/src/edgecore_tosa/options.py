"""The options that all backends for TOSA devices share, as their compiler and partitioner read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from edgecore.plugin import CompileSpec
from edgecore_tosa.spec import TosaSpec

if TYPE_CHECKING:
    from typing import Self


class TosaOptions(Protocol):
    """A pydantic model with these members, and further options of the backend."""

    @property
    def dump_intermediate_artifacts_to(self) -> str | None:
        """Parent of the folders for intermediate files; None to keep none."""

    @property
    def operators(self) -> tuple[str, ...]:
        """Delegate only these operators, such as `add` or `aten.add.Tensor`; all if empty."""

    @property
    def min_operators(self) -> int:
        """Do not delegate a partition with fewer operators than this."""

    @property
    def spec(self) -> TosaSpec:
        """The TOSA profile and extensions of the target."""

    @classmethod
    def model_validate(cls, obj: Any) -> Self:
        """Return the options with the values of a dict.

        Raises:
            pydantic.ValidationError: A value is not allowed.
        """

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """Return a copy with changed values, which are not validated."""

    def to_specs(self) -> list[CompileSpec]:
        """Return the compile specs that `preprocess` receives and the file stores."""

    @classmethod
    def from_specs(cls, specs: Sequence[CompileSpec]) -> Self:
        """Return the options that `to_specs` stored."""
