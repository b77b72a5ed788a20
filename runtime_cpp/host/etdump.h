// Converts traces to an ETDump, ExecuTorch's file format for profiles (src/edgecore/format/schema/etdump.fbs).
#ifndef EDGECORE_HOST_ETDUMP_H_
#define EDGECORE_HOST_ETDUMP_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "edgecore/program.h"
#include "host/debug_values.h"
#include "host/trace.h"

namespace edgecore {

// The dim orders in memory of the values in a delegate. The key is the operation that computes the value: its number,
// as "[5]", or its name if it has no number.
struct TracedDelegate {
  int32_t instruction = -1;  // index of the instruction that calls the delegate
  std::unordered_map<std::string, std::vector<uint8_t>> dim_orders = {};
};

struct TracedMethod {
  std::string name;
  std::vector<std::string> operators;  // for each instruction: the operator of a kernel call ("add.out"), else empty
  const Trace *trace;
  std::vector<std::string> metadata = {};  // JSON for each event in the trace's ring buffer; may be empty
  ValueRecorder *values = nullptr;         // the values that the runs have computed; NULL: none were recorded
  std::vector<TracedDelegate> delegates = {};
};

// Returns, for TracedMethod::operators, the operators that a method's instructions call.
std::vector<std::string> operators_of(const Program &program, size_t method);

// Returns, for TracedMethod::delegates, the delegates of a method with their dim orders.
std::vector<TracedDelegate> delegates_of(const Program &program, size_t method);

// Converts the events of several methods to the bytes of an ETDump file. Each run becomes a block (RunData) named
// "Execute". Loading and the prepare calls of backends go to a block "Default", so that all runs have the same events.
// In a program with several methods the method's name follows: "Execute decode". If two events of a block have the same
// name and instruction, the second is called "NAME (2)", because ExecuTorch's Inspector would keep only the last one.
// The id of an event within a delegate consists of the kind and number of its operation, such as "Conv2d [5]". The
// kernel, which follows ": " in the backend's name, is in the event's metadata as JSON. Recorded values become debug
// events, whose elements are appended to `buffer`, row-major in the graph's order of dims. Runs whose values differ
// from the values of the first run get different test case numbers, because the Inspector accepts only equal values
// within the runs of one block.
std::vector<uint8_t> etdump_of(const std::vector<TracedMethod> &methods, std::vector<uint8_t> *buffer = nullptr);

}  // namespace edgecore

#endif  // EDGECORE_HOST_ETDUMP_H_
