"""The SoCs with a Hexagon NPU that the backend supports.

Qualcomm documents the names, numbers and architectures, and ExecuTorch 1.5 lists them in `QcomChipset`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Soc:
    """A SoC, with its number at Qualcomm and the version of its HTP (Hexagon Tensor Processor)."""

    name: str
    number: int
    htp_arch: int

    @property
    def has_fp16(self) -> bool:
        """True if the HTP supports fp16; V68 only supports integers."""
        return self.htp_arch > _INTEGERS_ONLY


_INTEGERS_ONLY = 68

SOCS = {
    soc.name: soc
    for soc in (
        Soc("SM8350", 30, 68), Soc("SM8450", 36, 69), Soc("SM8475", 42, 69), Soc("SM8550", 43, 73),
        Soc("SM8650", 57, 75), Soc("SM8750", 69, 79), Soc("SM8845", 97, 81), Soc("SM8850", 87, 81),
        Soc("SA8255", 52, 73), Soc("SA8295", 39, 68), Soc("SA8797", 72, 81), Soc("SAR2230P", 95, 81),
        Soc("SC8380XP", 60, 73), Soc("SSG2115P", 46, 73), Soc("SSG2125P", 58, 73), Soc("SW6100", 96, 81),
        Soc("SXR1230P", 45, 73), Soc("SXR2230P", 53, 69), Soc("SXR2330P", 75, 79), Soc("QCM6490", 93, 68),
        Soc("QCS9100", 77, 73),
    )
}  # fmt: skip
"""Maps the name of each supported SoC to its description."""
