// Writes traces as an ETDump, ExecuTorch's format for profiles (src/edgecore/format/schema/etdump.fbs).
#ifndef EDGECORE_HOST_ETDUMP_H_
#define EDGECORE_HOST_ETDUMP_H_

#include <string>
#include <vector>

#include "edgecore/program.h"
#include "host/trace.h"

namespace edgecore {

struct TracedMethod {
  std::string name;
  std::vector<std::string> operators;  // for each instruction: "add.out" if it calls a kernel, else empty
  const Trace *trace;
  std::vector<std::string> metadata = {};  // JSON for each event of the trace's ring, or empty
};

// Returns TracedMethod::operators of a method.
std::vector<std::string> operators_of(const Program &program, size_t method);

// Converts the events of several methods to the bytes of an ETDump file. Each run is a block "Execute". Loading, and
// what backends prepare while loading or during runs, is a block "Default", so that all runs have the same events. In a
// program with several methods the method's name follows: "Execute decode". Within a block no two events have the same
// name and instruction, because ExecuTorch's Inspector would keep the last one only: the second is called "NAME (2)".
// An event within a delegate is called by the kind and number of its operation, "Conv2d [5]"; what follows ": " in the
// backend's name, the kernel, is in its metadata as JSON.
std::vector<uint8_t> etdump_of(const std::vector<TracedMethod> &methods);

}  // namespace edgecore

#endif  // EDGECORE_HOST_ETDUMP_H_
