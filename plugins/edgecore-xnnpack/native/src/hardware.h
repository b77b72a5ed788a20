// The processor features that XNNPACK chooses its kernels by.
#ifndef EDGECORE_XNNPACK_HARDWARE_H_
#define EDGECORE_XNNPACK_HARDWARE_H_

#include <cstdint>
#include <string>

#include "failure.h"

namespace edgecore::xnnpack {

struct Hardware {
  uint64_t flags;  // XNNPACK's xnn_arch_flags
  uint32_t uarch;  // cpuinfo's number of a microarchitecture, or UINT32_MAX for the processor's own
};

// What XNNPACK chooses by; its flags are 0 with an XNNPACK that get_xnnpack.py did not build.
Hardware HardwareInForce();

// Comma-separated names, without those that another one implies.
std::string HardwareNames(uint64_t flags);

// Reads a list as HardwareNames writes, in any order, with "uarch=NAME" or without. An empty list is SSE2 only. Each
// flag brings those that every processor with it has. Fails with an unknown name.
bool ParseHardware(const std::string &list, Hardware *hardware, Failure *failure);

// Takes away from XNNPACK what `list` does not name; call it before xnn_initialize. Fails, and changes nothing, where
// the list cannot be read or names what the processor lacks.
bool RestrictHardware(const std::string &list, Failure *failure);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_HARDWARE_H_
