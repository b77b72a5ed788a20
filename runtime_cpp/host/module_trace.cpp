// Implements the members of class Module for traces and for the values of operations.
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "host/etdump.h"
#include "host/module_state.h"
#include "host/trace_records.h"

namespace edgecore {
namespace {

Status write_file(const char *path, const std::vector<uint8_t> &bytes, Error &error) {
  std::FILE *file = std::fopen(path, "wb");
  const bool written = file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (file != nullptr && std::fclose(file) == 0 && written) return {};
  return fail(error, EDGECORE_ACCESS_FAILED, path, " cannot be written: ", std::strerror(errno), ".");
}

}  // namespace

std::vector<OperationValue> Module::take_values(size_t method) {
  const std::unique_ptr<ValueRecorder> &recorder = state_->methods[method]->values;
  return recorder == nullptr ? std::vector<OperationValue>() : recorder->take();
}

void Module::start_trace(TraceLevel level) {
  state_->started_level = level;
  state_->is_stopped = false;
  for (const auto &method : state_->methods) {
    if (method == nullptr) continue;
    if (method->trace == nullptr) method->trace = state_->make_trace(method->options);
    method->start_trace(level);
  }
  state_->is_tracing = true;
}

void Module::stop_trace() {
  state_->started_level.reset();
  state_->is_stopped = true;
  for (const auto &method : state_->methods) {
    if (method != nullptr) method->stop_trace();
  }
  state_->is_tracing = false;
}

void Module::clear_trace() {
  for (const auto &method : state_->methods) {
    if (method == nullptr) continue;
    if (method->trace != nullptr) method->trace->clear();
    if (method->values != nullptr) method->values->clear();
  }
}

TraceInfo Module::trace_info() const {
  TraceInfo info;
  info.is_running = state_->is_tracing;
  info.level = state_->started_level.value_or(info.level);
  for (const auto &method : state_->methods) {
    if (method == nullptr || method->trace == nullptr) continue;
    info.level = method->trace->level();
    info.events += method->trace->size() + method->trace->load_events().size();
    info.dropped += method->trace->dropped();
    info.bytes += method->trace->bytes();
  }
  return info;
}

Status Module::write_trace(const char *path, const char *values, Error &error) const {
  std::vector<TracedMethod> methods;
  for (size_t i = 0; i < state_->methods.size(); ++i) {
    const Trace *trace = state_->methods[i] == nullptr ? nullptr : state_->methods[i]->trace.get();
    if (trace == nullptr) continue;
    const StringView name = program().method(i).name();
    methods.push_back({std::string(name.data(), name.size()), operators_of(program(), i), trace});
    methods.back().values = state_->methods[i]->values.get();
    methods.back().delegates = delegates_of(program(), i);
  }
  if (methods.empty() && state_->is_tracing) {
    return fail(error, EDGECORE_INVALID_STATE, "The trace is empty: no method was loaded yet.");
  }
  if (methods.empty()) {
    return fail(error, EDGECORE_INVALID_STATE, "The methods were loaded without trace, and none was started later.");
  }
  std::vector<uint8_t> buffer;
  EDGECORE_TRY(write_file(path, etdump_of(methods, values == nullptr ? nullptr : &buffer), error));
  return values == nullptr ? Status() : write_file(values, buffer, error);
}

Status Module::convert_trace(Bytes records, const char *path, Error &error) const {
  if (!is_open()) return no_program(error);
  std::vector<uint8_t> etdump;
  EDGECORE_TRY(etdump_of_records(program(), records, etdump, error));
  return write_file(path, etdump, error);
}

}  // namespace edgecore
