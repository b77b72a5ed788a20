// The processor features by which XNNPACK chooses its kernels.
#ifndef EDGECORE_XNNPACK_HARDWARE_H_
#define EDGECORE_XNNPACK_HARDWARE_H_

#include <cstdint>
#include <string>

namespace edgecore::xnnpack {

struct Hardware {
  uint64_t flags;  // XNNPACK's xnn_arch_flags
  uint32_t uarch;  // microarchitecture: a cpuinfo_uarch number; UINT32_MAX: this processor's
};

// Returns the processor features that XNNPACK uses. The flags are 0 if XNNPACK was built without the patch
// third_party/patches/12-restrict-hardware.patch, which adds the function that returns the flags.
Hardware hardware_in_force();

// Returns the comma-separated names of `flags`, without flags that another of the flags implies.
std::string hardware_names(uint64_t flags);

// Parses a list such as hardware_names returns, with names in any order and optionally "uarch=NAME". An empty list
// means only SSE2. Adds the flags that each flag implies. Throws backend::Failure for an unknown name.
Hardware parse_hardware(const std::string &list);

// Returns true if the delegate's own kernels may use `features`: XNNPACK may use them, and this processor has them
// (`is_present`). With emulated kernels (native/tests), XNNPACK may use features that the processor lacks.
bool may_use(const char *features, bool is_present);

// Restricts XNNPACK to the processor features in `list`; must be called before xnn_initialize. Throws backend::Failure,
// and changes nothing, if the list cannot be parsed or names a feature that the processor lacks.
void restrict_hardware(const std::string &list);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_HARDWARE_H_
