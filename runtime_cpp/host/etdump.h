// Writes traces as an ETDump, ExecuTorch's format for profiles (src/edgecore/format/schema/etdump.fbs).
#ifndef EDGECORE_HOST_ETDUMP_H_
#define EDGECORE_HOST_ETDUMP_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "edgecore/program.h"
#include "host/debug_values.h"
#include "host/trace.h"

namespace edgecore {

// The dim orders in memory of a delegate's values, by number or name of the operation, as the .pte states them.
struct TracedDelegate {
  int32_t instruction = -1;  // the instruction that calls it
  std::unordered_map<std::string, std::vector<uint8_t>> dim_orders = {};
};

struct TracedMethod {
  std::string name;
  std::vector<std::string> operators;  // for each instruction: "add.out" if it calls a kernel, else empty
  const Trace *trace;
  std::vector<std::string> metadata = {};  // JSON for each event of the trace's ring, or empty
  ValueRecorder *values = nullptr;         // NULL: no values were recorded
  std::vector<TracedDelegate> delegates = {};
};

// Returns the member `operators` for a method.
std::vector<std::string> operators_of(const Program &program, size_t method);

// Returns the member `delegates` for a method.
std::vector<TracedDelegate> delegates_of(const Program &program, size_t method);

// Converts the events of several methods to the bytes of an ETDump file. Each run is a block "Execute". Loading, and
// what backends prepare while loading or during runs, is a block "Default", so that all runs have the same events. In a
// program with several methods the method's name follows: "Execute decode". If two events of a block have the same name
// and instruction, the second is called "NAME (2)", because ExecuTorch's Inspector would keep only the last one. The id
// of an event within a delegate is the kind and number of its operation, "Conv2d [5]"; the part of the backend's name
// after ": ", the kernel, is in its metadata as JSON. Recorded values become debug events, whose elements are appended
// to `buffer`, row-major in the graph's order of dims. Runs whose values differ from the first run's have numbers of
// test cases, since the Inspector accepts only equal values for the runs of one block.
std::vector<uint8_t> etdump_of(const std::vector<TracedMethod> &methods, std::vector<uint8_t> *buffer = nullptr);

}  // namespace edgecore

#endif  // EDGECORE_HOST_ETDUMP_H_
