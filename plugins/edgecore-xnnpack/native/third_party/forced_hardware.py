"""A patch that makes XNNPACK select its kernels as if it ran on another processor."""

from __future__ import annotations

from patch import Patch

_X86_FLAGS = """#if XNN_ARCH_X86 || XNN_ARCH_X86_64
// Sets those of `flags` whose kernels were compiled into this library.
static void set_x86_flags(uint64_t flags) {
  hardware_config.arch_flags = 0;
  #define SET_FLAG(name, built)                                                                  \\
    hardware_config.use_x86_##name = built && (flags & xnn_arch_x86_##name) != 0;            \\
    if (hardware_config.use_x86_##name) hardware_config.arch_flags |= xnn_arch_x86_##name;
  SET_FLAG(ssse3, true)
  SET_FLAG(sse4_1, true)
  SET_FLAG(avx, true)
  SET_FLAG(f16c, true)
  SET_FLAG(fma3, true)
  SET_FLAG(avx2, true)
  SET_FLAG(avx512f, XNN_ENABLE_AVX512F)
  SET_FLAG(avx512skx, XNN_ENABLE_AVX512SKX)
  SET_FLAG(avx512vbmi, XNN_ENABLE_AVX512VBMI)
  SET_FLAG(avx512vnni, XNN_ENABLE_AVX512VNNI)
  SET_FLAG(avx512vnnigfni, XNN_ENABLE_AVX512VNNIGFNI)
  SET_FLAG(avx512fp16, XNN_ENABLE_AVX512FP16)
  SET_FLAG(avx512amx, XNN_ENABLE_AVX512AMX)
  SET_FLAG(avxvnni, XNN_ENABLE_AVXVNNI)
  SET_FLAG(avxvnniint8, XNN_ENABLE_AVXVNNIINT8)
  SET_FLAG(avx256skx, XNN_ENABLE_AVX256SKX)
  SET_FLAG(avx256vnni, XNN_ENABLE_AVX256VNNI)
  SET_FLAG(avx256vnnigfni, XNN_ENABLE_AVX256VNNIGFNI)
  #undef SET_FLAG
}
#endif

"""
_RESTRICT = """
static uint32_t forced_uarch = UINT32_MAX;

uint64_t xnn_restrict_hardware(uint64_t keep_flags, uint32_t uarch) {
  if (xnn_init_hardware_config() == NULL) {
    return 0;
  }
  #if XNN_ARCH_X86 || XNN_ARCH_X86_64
    if (keep_flags != UINT64_MAX) {
      set_x86_flags(hardware_config.arch_flags & keep_flags);
    }
    if (uarch != UINT32_MAX) {
      forced_uarch = uarch;
    }
  #endif
  return hardware_config.arch_flags;
}

uint32_t xnn_hardware_uarch() {
  return forced_uarch != UINT32_MAX ? forced_uarch : (uint32_t) cpuinfo_get_core(0)->uarch;
}
"""

PATCHES = [
    # `xnn_restrict_hardware` is called before `xnn_initialize`. It clears the CPU feature flags that are not in
    # `keep_flags`, so that XNNPACK selects the kernels of an older processor, and returns the remaining flags. It can
    # also set the microarchitecture, by which XNNPACK selects a few kernels. In the emulated library, all flags are set
    # before the call, because its kernels run on every processor with AVX2.
    Patch(
        "src/xnnpack/hardware-config.h",
        "XNN_INTERNAL const struct xnn_hardware_config* xnn_init_hardware_config();\n",
        """XNN_INTERNAL const struct xnn_hardware_config* xnn_init_hardware_config();
// uarch: a number of enum cpuinfo_uarch in cpuinfo.h, or UINT32_MAX for that of this processor.
XNN_INTERNAL uint64_t xnn_restrict_hardware(uint64_t keep_flags, uint32_t uarch);
XNN_INTERNAL uint32_t xnn_hardware_uarch();
""",
    ),
    Patch(
        "src/configs/hardware-config.c",
        "static void init_hardware_config(void) {\n",
        _X86_FLAGS + "static void init_hardware_config(void) {\n",
    ),
    Patch(
        "src/configs/hardware-config.c",
        """hardware_config.arch_flags |= xnn_arch_hvx;
  #endif  // XNN_ARCH_HEXAGON

}
""",
        """hardware_config.arch_flags |= xnn_arch_hvx;
  #endif  // XNN_ARCH_HEXAGON
  #if EDGECORE_XNNPACK_EMULATED
    set_x86_flags(UINT64_MAX);
  #endif
}
""",
    ),
    Patch(
        "src/configs/hardware-config.c",
        "  XNN_INIT_ONCE(hardware);\n  return &hardware_config;\n}\n",
        "  XNN_INIT_ONCE(hardware);\n  return &hardware_config;\n}\n" + _RESTRICT,
    ),
    Patch(
        "src/configs/gemm-config.c",
        "if (!XNN_PLATFORM_MOBILE && hardware_config->use_x86_avx512vnnigfni && "
        "cpuinfo_get_core(0)->uarch != cpuinfo_uarch_zen4) {\n",
        "if (!XNN_PLATFORM_MOBILE && hardware_config->use_x86_avx512vnnigfni && "
        "xnn_hardware_uarch() != cpuinfo_uarch_zen4) {\n",
    ),
    Patch(
        "src/configs/gemm-config.c",
        "      switch (cpuinfo_get_core(0)->uarch) {\n        case cpuinfo_uarch_zen:\n",
        "      switch (xnn_hardware_uarch()) {\n        case cpuinfo_uarch_zen:\n",
    ),
]
