#include "hardware.h"

#include <cpuinfo.h>

#include <algorithm>
#include <iterator>

#include "edgecore/backend.hpp"

// Functions that a patch of this plugin adds to XNNPACK (third_party/patches/12-restrict-hardware.patch).
// xnn_restrict_hardware clears all flags but `keep_flags` and returns the remaining flags. The functions are weak
// symbols, because an XNNPACK without the patch (CMake's option XNNPACK_DIR) lacks them.
extern "C" {
__attribute__((weak)) uint64_t xnn_restrict_hardware(uint64_t keep_flags, uint32_t uarch);
__attribute__((weak)) uint32_t xnn_hardware_uarch();
}

namespace edgecore::xnnpack {

using backend::fail;

namespace {

constexpr uint32_t kOwnUarch = UINT32_MAX;  // value of Hardware::uarch for this processor's own microarchitecture

#if defined(__x86_64__) || defined(__i386__)

// The bits of XNNPACK's xnn_arch_flags on x86 (xnnpack/hardware-config.h).
enum : uint64_t {
  kSsse3 = 1u << 0,
  kSse41 = 1u << 1,
  kAvx = 1u << 2,
  kF16c = 1u << 3,
  kFma3 = 1u << 4,
  kAvx2 = 1u << 5,
  kAvxVnni = 1u << 6,
  kAvxVnniInt8 = 1u << 7,
  kAvx256Skx = 1u << 8,
  kAvx256Vnni = 1u << 9,
  kAvx256VnniGfni = 1u << 10,
  kAvx512F = 1u << 11,
  kAvx512Vbmi = 1u << 12,
  kAvx512Skx = 1u << 13,
  kAvx512Vnni = 1u << 14,
  kAvx512VnniGfni = 1u << 15,
  kAvx512Amx = 1u << 16,
  kAvx512Fp16 = 1u << 17,
};

// The names of processor features and their flags. `implies` has the other flags of every processor with `flag`: flags
// of instruction sets that XNNPACK's kernels for `flag` also use, and flags that hardware-config.c derives from `flag`.
// An entry must follow the entries that it implies, because with_implied walks the table once, from the last entry on.
constexpr struct {
  const char *name;
  uint64_t flag;
  uint64_t implies;
} kFlags[] = {
    {"ssse3", kSsse3, 0},
    {"sse4_1", kSse41, kSsse3},
    {"avx", kAvx, kSse41},
    {"f16c", kF16c, kAvx},
    {"fma3", kFma3, kF16c},
    {"avx2", kAvx2, kFma3},
    {"avxvnni", kAvxVnni, kAvx2},
    {"avxvnniint8", kAvxVnniInt8, kAvxVnni},
    {"avx256skx", kAvx256Skx, kAvx2},
    {"avx256vnni", kAvx256Vnni, kAvx256Skx | kAvxVnni},
    {"avx256vnnigfni", kAvx256VnniGfni, kAvx256Vnni},
    {"avx512f", kAvx512F, kAvx2},
    {"avx512skx", kAvx512Skx, kAvx512F | kAvx256Skx},
    {"avx512vbmi", kAvx512Vbmi, kAvx512Skx},
    {"avx512vnni", kAvx512Vnni, kAvx512Skx},
    {"avx512vnnigfni", kAvx512VnniGfni, kAvx512Vnni},
    {"avx512fp16", kAvx512Fp16, kAvx512VnniGfni},
    {"avx512amx", kAvx512Amx, kAvx512VnniGfni | kAvx256VnniGfni},
};

#else

// The bits of xnn_arch_flags on Arm. XNNPACK sets v6 and vfpv2 only in 32-bit programs, so no other flag implies them.
enum : uint64_t {
  kV6 = 1u << 0,
  kVfp2 = 1u << 1,
  kVfp3 = 1u << 2,
  kNeon = 1u << 3,
  kNeonFp16 = 1u << 4,
  kNeonFma = 1u << 5,
  kNeonV8 = 1u << 6,
  kFp16Arith = 1u << 7,
  kNeonFp16Arith = 1u << 8,
  kNeonBf16 = 1u << 9,
  kNeonDot = 1u << 10,
  kNeonI8mm = 1u << 11,
  kSve = 1u << 12,
  kSve2 = 1u << 13,
  kSme = 1u << 14,
  kSme2 = 1u << 15,
};

constexpr struct {
  const char *name;
  uint64_t flag;
  uint64_t implies;
} kFlags[] = {
    {"v6", kV6, 0},
    {"vfpv2", kVfp2, kV6},
    {"vfpv3", kVfp3, 0},
    {"neon", kNeon, kVfp3},
    {"neon_fp16", kNeonFp16, kNeon},
    {"neon_fma", kNeonFma, kNeonFp16},
    {"neon_v8", kNeonV8, kNeonFma},
    {"fp16_arith", kFp16Arith, kNeonV8},
    {"neon_fp16_arith", kNeonFp16Arith, kFp16Arith},
    {"neon_dot", kNeonDot, kNeonV8},
    {"neon_bf16", kNeonBf16, kNeonV8},
    {"neon_i8mm", kNeonI8mm, kNeonV8},
    {"sve", kSve, kNeonFp16Arith},
    {"sve2", kSve2, kSve},
    {"sme", kSme, kNeonBf16},
    {"sme2", kSme2, kSme},
};

#endif

// The names of microarchitectures that a user can choose. On x86, only zen and zen4 make XNNPACK select other kernels.
// On Arm, no microarchitecture can be chosen.
constexpr struct {
  const char *name;
  uint32_t uarch;
} kUarchs[] = {{"zen", cpuinfo_uarch_zen},   {"zen2", cpuinfo_uarch_zen2}, {"zen3", cpuinfo_uarch_zen3},
               {"zen4", cpuinfo_uarch_zen4}, {"zen5", cpuinfo_uarch_zen5}, {"other", cpuinfo_uarch_unknown}};

uint64_t with_implied(uint64_t flags) {
  for (size_t i = std::size(kFlags); i-- > 0;) {
    if ((flags & kFlags[i].flag) != 0) flags |= kFlags[i].implies;
  }
  return flags;
}

}  // namespace

Hardware hardware_in_force() {
  if (xnn_restrict_hardware == nullptr) return {0, kOwnUarch};
  const uint64_t flags = xnn_restrict_hardware(UINT64_MAX, kOwnUarch);  // also initializes cpuinfo
  return {flags, xnn_hardware_uarch()};
}

std::string hardware_names(uint64_t flags) {
  uint64_t implied = 0;
  for (const auto &row : kFlags) {
    if ((flags & row.flag) != 0) implied |= with_implied(row.implies);
  }
  std::string names;
  for (const auto &row : kFlags) {
    if ((flags & ~implied & row.flag) == 0) continue;
    if (!names.empty()) names += ",";
    names += row.name;
  }
  return names;
}

Hardware parse_hardware(const std::string &list) {
  Hardware hardware = {0, kOwnUarch};
  for (size_t start = 0; start < list.size();) {
    const size_t end = std::min(list.find(',', start), list.size());
    const std::string word = list.substr(start, end - start);
    start = end + 1;
    bool is_known = word.empty();
    for (const auto &row : kFlags) {
      if (word != row.name) continue;
      hardware.flags |= row.flag;
      is_known = true;
    }
    for (const auto &row : kUarchs) {
      if (word != std::string("uarch=") + row.name) continue;
      hardware.uarch = row.uarch;
      is_known = true;
    }
    if (is_known) continue;
    std::string names;
    for (const auto &row : kFlags) names += std::string(row.name) + ", ";
    for (const auto &row : kUarchs) names += std::string(names.back() == ' ' ? "" : ", ") + "uarch=" + row.name;
    fail(EDGECORE_INVALID_ARGUMENT, "EDGECORE_XNNPACK_HARDWARE: '%.60s' is none of %s", word.c_str(), names.c_str());
  }
  hardware.flags = with_implied(hardware.flags);
  return hardware;
}

bool may_use(const char *features, bool is_present) {
  const uint64_t flags = parse_hardware(features).flags;
  return is_present && (hardware_in_force().flags & flags) == flags;
}

#if defined(__x86_64__) || defined(__i386__)

void restrict_hardware(const std::string &list) {
  const Hardware hardware = parse_hardware(list);
  if (xnn_restrict_hardware == nullptr) {
    fail(EDGECORE_NOT_SUPPORTED,
         "EDGECORE_XNNPACK_HARDWARE: the XNNPACK in this library cannot be restricted; unset the variable");
  }
  const uint64_t available = hardware_in_force().flags;
  if ((hardware.flags & ~available) != 0) {
    fail(EDGECORE_NOT_SUPPORTED, "EDGECORE_XNNPACK_HARDWARE: this processor lacks %s; it has %s",
         hardware_names(hardware.flags & ~available).c_str(), hardware_names(available).c_str());
  }
  xnn_restrict_hardware(hardware.flags, hardware.uarch);
}

#else

void restrict_hardware(const std::string &) {
  fail(EDGECORE_NOT_SUPPORTED, "EDGECORE_XNNPACK_HARDWARE is for x86 processors; unset the variable");
}

#endif

}  // namespace edgecore::xnnpack
