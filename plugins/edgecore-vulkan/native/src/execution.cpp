#include "execution.h"

#include <algorithm>
#include <utility>

#include "arguments.h"

namespace edgecore::vulkan {

using backend::fail;

Execution::Execution(const Graph &graph, ShaderDevice &device, Weights &weights, StateBuffers states,
                     uint64_t timeout_ns, bool is_profiled)
    : graph_(graph),
      device_(device),
      weights_(weights),
      states_(std::move(states)),
      timeout_ns_(timeout_ns),
      argument_bytes_(graph.inputs.size() + graph.outputs.size()),
      places_(argument_bytes_.size()),
      pool_(device),
      commands_(device, pool_, is_profiled && device.nanoseconds_per_tick() != 0) {}

Execution::~Execution() {
  if (!is_pending_) return;
  const VkFence fence = pool_.fence();
  // Wait before freeing memory, because the device may still use it after a time-out. The wait ends even if the run
  // hangs, because the driver then ends the run.
  device_.vk().vkWaitForFences(device_.handle(), 1, &fence, VK_TRUE, UINT64_MAX);
}

void Execution::prepare(const backend::Arguments &arguments) {
  const size_t inputs = graph_.inputs.size();
  if (arguments.size() != places_.size()) {
    fail(EDGECORE_INVALID_ARGUMENT, "the delegate has %zu arguments; got %llu", places_.size(),
         static_cast<unsigned long long>(arguments.size()));
  }
  std::vector<ArgumentFormat> formats(inputs), max_formats(inputs);
  std::vector<int64_t> sizes(inputs);
  bool is_max = true, is_known = true;
  for (size_t i = 0; i < inputs; ++i) {
    const Value &value = graph_.values[graph_.inputs[i]];
    if (value.kind == Kind::kSymInt) {
      if (arguments.value(i).tag != EDGECORE_TAG_INT) fail(EDGECORE_INVALID_ARGUMENT, "argument %zu is no integer", i);
      is_known = is_known && (arguments.value(i).flags & EDGECORE_VALUE_UNKNOWN) == 0;
      sizes[i] = arguments.value(i).as.i;
      is_max = false;
      continue;
    }
    const edgecore_tensor &tensor = arguments.any_tensor(i);
    if (!fits(tensor.dl.dtype, value.staging)) {
      fail(EDGECORE_INVALID_TYPE, "argument %zu has a dtype of code %d and %d bits, which the blob does not expect", i,
           tensor.dl.dtype.code, tensor.dl.dtype.bits);
    }
    Shape shape(tensor.dl.shape, tensor.dl.shape + tensor.dl.ndim);
    bool allowed = shape.size() == value.shape.size();
    for (size_t d = 0; allowed && d < shape.size(); ++d) allowed = shape[d] >= 0 && shape[d] <= value.shape[d];
    if (!allowed) fail(EDGECORE_INVALID_ARGUMENT, "argument %zu has a shape that the delegate does not allow", i);
    is_max = is_max && shape == value.shape;
    formats[i] = {staging_dtype(value.staging, device_.has_8_bit_storage()), layout_of(tensor, i), shape};
    max_formats[i] = {formats[i].dtype, formats[i].layout, value.shape};
  }
  std::vector<Layout> output_layouts;
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const edgecore_tensor &tensor = arguments.any_tensor(inputs + i);
    if (!fits(tensor.dl.dtype, graph_.values[graph_.outputs[i]].staging)) {
      fail(EDGECORE_INVALID_TYPE, "argument %zu has a dtype that the blob does not expect", inputs + i);
    }
    output_layouts.push_back(layout_of(tensor, inputs + i));
  }
  finish();  // wait, because an earlier run that has timed out may still use the memory
  commands_.clear();
  running_ = nullptr;
  if (!is_known) {  // symbolic sizes are still unknown while a method is loaded: declare maximum shapes
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Shape &shape = graph_.values[graph_.outputs[i]].shape;
      arguments.resize(inputs + i, shape.data(), static_cast<int32_t>(shape.size()));
    }
    return;
  }
  const bool has_sizes = std::any_of(graph_.inputs.begin(), graph_.inputs.end(),
                                     [this](uint32_t number) { return graph_.values[number].kind == Kind::kSymInt; });
  // Allocate memory for the maximum shapes now, so that it suffices for all later shapes.
  if (!is_max && !has_max_shapes_ && !has_sizes) {
    allocate(record(graph_, device_, weights_, states_, max_formats, output_layouts, sizes));
    has_max_shapes_ = true;
  }
  recording_ = record(graph_, device_, weights_, states_, formats, output_layouts, sizes);
  allocate(recording_);
  std::fill(argument_bytes_.begin(), argument_bytes_.end(), 0);
  for (const Storage &storage : recording_.storages) {
    if (storage.kind == Storage::Kind::kArgument) argument_bytes_[storage.argument] = storage.bytes;
  }
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const Shape &shape = recording_.outputs[i].shape;
    arguments.resize(inputs + i, shape.data(), static_cast<int32_t>(shape.size()));
  }
  device_.check_messages();
}

void Execution::allocate(const Recording &recording) {
  if (arena_.size() < recording.arena_bytes) arena_ = Buffer(device_, recording.arena_bytes, false);
}

// Returns the device memory of each argument in this run. Creates device memory for arguments in host memory.
std::vector<Binding> Execution::bind(const backend::Arguments &arguments) {
  std::vector<Binding> bindings(places_.size());
  for (size_t i = 0; i < places_.size(); ++i) {
    if (argument_bytes_[i] == 0) continue;
    const edgecore_tensor &tensor = arguments.any_tensor(i);
    if (tensor.buffer != nullptr) {
      const uint64_t offset = tensor.dl.byte_offset;
      if (tensor.dl.dtype.bits == 64) fail(EDGECORE_INVALID_TYPE, "argument %zu on the device has 64-bit elements", i);
      if (offset % kArgumentAlignment != 0 || offset + argument_bytes_[i] > tensor.buffer->memory.size()) {
        fail(EDGECORE_INVALID_ARGUMENT, "argument %zu does not lie in its buffer as the delegate requires", i);
      }
      bindings[i] = {tensor.buffer->memory.handle(), offset, VK_NULL_HANDLE};
      continue;
    }
    Place &place = places_[i];
    if (place.host.size() < argument_bytes_[i]) {
      place.host = Buffer(device_, argument_bytes_[i], true);
      place.local = device_.unified() ? Buffer() : Buffer(device_, argument_bytes_[i], false);
    }
    bindings[i] = device_.unified() ? Binding{place.host.handle(), 0, VK_NULL_HANDLE}
                                    : Binding{place.local.handle(), 0, place.host.handle()};
  }
  return bindings;
}

void Execution::start(const backend::Arguments &arguments) {
  finish();  // wait, because an earlier run that has timed out may still use the memory
  const size_t inputs = graph_.inputs.size();
  const std::vector<Binding> bindings = bind(arguments);
  host_outputs_.clear();
  for (size_t i = 0; i < places_.size(); ++i) {
    if (argument_bytes_[i] == 0) continue;
    const edgecore_tensor &tensor = arguments.any_tensor(i);
    const int64_t elements = count(tensor.dl);
    if (tensor.buffer != nullptr || elements == 0) continue;
    const Place &place = places_[i];
    const Value &value = graph_.values[i < inputs ? graph_.inputs[i] : graph_.outputs[i - inputs]];
    const Dtype held = staging_dtype(value.staging, device_.has_8_bit_storage());
    if (i >= inputs) {
      host_outputs_.push_back({&place, tensor.dl.dtype, held, arguments.data<char>(i), elements});
      continue;
    }
    to_device(tensor.dl.dtype, held, arguments.data<char>(i), place.host.mapped(), elements);
    place.host.flush();
  }
  running_ = &commands_.get(recording_, arena_.handle(), inputs, argument_bytes_, bindings);
  device_.submit(running_->handle, pool_.fence());
  is_pending_ = true;
  device_.store_pipelines();
}

void Execution::finish() {
  if (!is_pending_) return;
  // Take the outputs out of host_outputs_: it must be empty for the next run even if this run has failed.
  const std::vector<HostOutput> outputs = std::exchange(host_outputs_, {});
  device_.wait(pool_.fence(), timeout_ns_);
  is_pending_ = false;
  for (const HostOutput &output : outputs) {
    output.place->host.invalidate();
    to_host(output.dtype, output.held, output.place->host.mapped(), output.data, output.elements);
  }
  device_.check_messages();
}

std::vector<DispatchTime> Execution::times() const {
  const size_t count = recording_.dispatches.size();
  if (running_ == nullptr || running_->queries == VK_NULL_HANDLE) return {};
  std::vector<uint64_t> ticks(2 * count);
  check(device_.vk().vkGetQueryPoolResults(device_.handle(), running_->queries, 0, static_cast<uint32_t>(2 * count),
                                           ticks.size() * 8, ticks.data(), 8,
                                           VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
        "reading the times of dispatches");
  const auto nanoseconds = [&](uint64_t tick) {
    return static_cast<uint64_t>(static_cast<double>(tick - ticks[0]) * device_.nanoseconds_per_tick());
  };
  std::vector<DispatchTime> result(count);
  for (size_t i = 0; i < count; ++i) {
    const Dispatch &dispatch = recording_.dispatches[i];
    const std::string call = dispatch.call == kNoCall ? "border" : graph_.calls[dispatch.call].name;
    result[i] = {call + ": " + dispatch.shader, dispatch.call, nanoseconds(ticks[2 * i]),
                 nanoseconds(ticks[2 * i + 1])};
  }
  return result;
}

}  // namespace edgecore::vulkan
