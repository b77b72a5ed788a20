#include "host/debug_values.h"

#include <functional>
#include <utility>

#include "host/tensor_copy.h"

namespace edgecore {
namespace {

// assumed size in bytes of a recorded value without its elements
constexpr uint64_t kValueBytes = sizeof(DebugValue) + 64;

void mix(size_t &hash, size_t other) { hash = (hash ^ other) * 0x9e3779b97f4a7c15u; }

void mix(size_t &hash, const DebugValue &value) {
  mix(hash, static_cast<size_t>(value.source));
  mix(hash, value.index);
  mix(hash, static_cast<size_t>(value.id));
  mix(hash, std::hash<std::string>()(value.operation));
  mix(hash, static_cast<size_t>(value.number.i));
  for (const Tensor &tensor : value.tensors) {
    for (const int64_t size : tensor.shape()) mix(hash, static_cast<size_t>(size));
    mix(hash, std::hash<std::string_view>()({static_cast<const char *>(tensor.data()), tensor.bytes()}));
  }
}

bool is_on_host(const edgecore_tensor *tensor) { return tensor != nullptr && tensor->buffer == nullptr; }

}  // namespace

void ValueRecorder::value(size_t delegate, StringView name, int64_t debug_id, const edgecore_tensor &value) {
  const std::string operation(name.data(), name.size());
  if (takes_) taken_.push_back({delegate, operation, debug_id, copy_of(value)});
  // record nothing if the level excludes operations, or if the trace records no run now
  if (level_ != DebugLevel::kValues || !trace_->is_running()) return;
  DebugValue kept = {DebugValue::Source::kOperation, delegate, operation, debug_id, EDGECORE_TAG_TENSOR, {}, {}};
  if (takes_) {
    kept.tensors.push_back(taken_.back().value);  // share the tensor's memory with the value in `taken_`
  } else {
    kept.tensors.push_back(copy_of(value));
  }
  add(std::move(kept));
}

void ValueRecorder::result(size_t instruction, const edgecore_value &value) {
  if (level_ == DebugLevel::kValues) add(DebugValue::Source::kInstruction, instruction, value);
}

void ValueRecorder::output(const edgecore_value &value) {
  if (level_ != DebugLevel::kNone) add(DebugValue::Source::kOutput, 0, value);
}

void ValueRecorder::add(DebugValue::Source source, size_t index, const edgecore_value &value) {
  if (!trace_->is_running()) return;  // the trace records no run now: keep no value for it
  DebugValue kept = {source, index, {}, -1, static_cast<int32_t>(value.tag), {}, {}};
  kept.number.i = 0;
  switch (value.tag) {
    case EDGECORE_TAG_TENSOR:
      if (!is_on_host(value.as.tensor)) return;
      kept.tensors.push_back(copy_of(*value.as.tensor));
      break;
    case EDGECORE_TAG_TENSOR_LIST:
      for (uint64_t i = 0; i < value.as.list->count; ++i) {
        if (!is_on_host(value.as.list->items.tensors[i])) return;
        kept.tensors.push_back(copy_of(*value.as.list->items.tensors[i]));
      }
      break;
    case EDGECORE_TAG_INT:
      kept.number.i = value.as.i;
      break;
    case EDGECORE_TAG_DOUBLE:
      kept.number.d = value.as.d;
      break;
    case EDGECORE_TAG_BOOL:
      kept.number.i = value.as.b;
      break;
    default:
      return;
  }
  add(std::move(kept));
}

void ValueRecorder::add(DebugValue value) {
  if (!trace_->is_running()) return;
  if (runs_.empty() || runs_.back().run != trace_->runs()) {
    close();
    runs_.emplace_back();
    runs_.back().run = trace_->runs();
    runs_.back().same_as = runs_.size() - 1;
    is_open_ = true;
  }
  uint64_t bytes = kValueBytes;
  for (const Tensor &tensor : value.tensors) bytes += tensor.bytes();
  if (bytes > limit_ - bytes_) {
    ++missing_;
    return;
  }
  bytes_ += bytes;
  mix(runs_.back().hash, value);
  runs_.back().values.push_back(std::move(value));
}

// Ends the recording of the last run. If an earlier run had the same values, frees the last run's values.
void ValueRecorder::close() {
  if (!is_open_) return;
  is_open_ = false;
  for (size_t i = 0; i + 1 < runs_.size(); ++i) {
    DebugRun &last = runs_.back();
    if (runs_[i].same_as != i || runs_[i].hash != last.hash || runs_[i].values.size() != last.values.size()) continue;
    for (const DebugValue &value : last.values) {
      bytes_ -= kValueBytes;
      for (const Tensor &tensor : value.tensors) bytes_ -= tensor.bytes();
    }
    last.same_as = i;
    last.values = {};
    return;
  }
}

std::vector<OperationValue> ValueRecorder::take() { return std::exchange(taken_, {}); }

void ValueRecorder::clear() {
  runs_.clear();
  bytes_ = missing_ = 0;
  is_open_ = false;
}

const std::vector<DebugRun> &ValueRecorder::runs() {
  close();
  return runs_;
}

}  // namespace edgecore
