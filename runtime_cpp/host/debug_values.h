// Records the values that a method computes, for Module::take_values and for the debug events of an ETDump.
#ifndef EDGECORE_HOST_DEBUG_VALUES_H_
#define EDGECORE_HOST_DEBUG_VALUES_H_

#include <string>
#include <vector>

#include "edgecore/module.h"
#include "host/trace.h"

namespace edgecore {

// A value that a run has computed. The value is the result of an instruction, the result of an operation in a delegate,
// or an output of the method.
struct DebugValue {
  enum class Source : uint8_t { kInstruction, kOperation, kOutput };

  Source source;
  size_t index;                 // index of the instruction or delegate that computed the value; 0 for an output
  std::string operation;        // the backend's name for the operation that computed the value
  int64_t id;                   // the backend's number for this operation, or -1
  int32_t tag;                  // EDGECORE_TAG_*
  std::vector<Tensor> tensors;  // the recorded value, if it is a tensor or a list of tensors
  union {
    int64_t i;
    double d;
  } number;
};

// The values of one run. `run` is the number of the run, counted from 1 over all runs of the trace.
struct DebugRun {
  uint64_t run = 0;
  size_t hash = 0;     // hash of all values of the run, to find runs with equal values fast
  size_t same_as = 0;  // index of the first run with equal values, which stores them; may be this run's own index
  std::vector<DebugValue> values;
};

class ValueRecorder final : public ValueListener {
 public:
  // If `takes`, keeps values of operations inside of delegates for take(). Unless `level` is kNone, keeps the values of
  // the runs that `trace` records, in at most `limit` bytes.
  ValueRecorder(bool takes, DebugLevel level, const Trace *trace, uint64_t limit)
      : takes_(takes), level_(level), trace_(trace), limit_(limit) {}

  void value(size_t delegate, StringView name, int64_t debug_id, const edgecore_tensor &value) override;
  void result(size_t instruction, const edgecore_value &value) override;
  void output(const edgecore_value &value) override;

  std::vector<OperationValue> take();
  void clear();
  // Returns the runs that have recorded values, oldest first.
  const std::vector<DebugRun> &runs();
  // number of values that the recorder dropped because of its memory limit
  uint64_t missing() const { return missing_; }

 private:
  void add(DebugValue value);
  void add(DebugValue::Source source, size_t index, const edgecore_value &value);
  void close();

  bool takes_;
  DebugLevel level_;
  const Trace *trace_;
  uint64_t limit_;
  uint64_t bytes_ = 0;
  uint64_t missing_ = 0;
  bool is_open_ = false;  // true if the recorder may still add values to the last of runs_
  std::vector<OperationValue> taken_;
  std::vector<DebugRun> runs_;
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_DEBUG_VALUES_H_
