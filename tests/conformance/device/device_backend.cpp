// A backend for tests whose arguments, weights and state are in the memory of a device (device.h), and whose executions
// stay pending. It computes add and mul of equal shapes, matrix products, and updates of rows (index_put), in float32.
#include <algorithm>
#include <chrono>
#include <map>

#include "graph.h"

namespace device {
namespace {

using edgecore::backend::Arguments;
using edgecore::backend::Host;
using edgecore::backend::Options;

constexpr uint32_t kMemoryKind = 3;
constexpr int32_t kFloat = 6;  // number of the .pte's ScalarType

// --- The five handles ------------------------------------------------------------------------------------------------

struct Driver {
  explicit Driver(const Host &host) : host(host) {}
  Host host;
  Queue queue;
};

struct Program {
  Program(Driver &driver, const Host &, const Options &) : queue(driver.queue) { queue.start(); }
  ~Program() { queue.stop(); }
  Queue &queue;
};

struct Delegate {
  Delegate(Program &program, const Host &, const edgecore_delegate_info &info)
      : queue(program.queue), graph(read_graph(info.blob, program.queue)) {
    for (Buffer &buffer : graph.buffers) {
      if (fault("own-names")) buffer.name += "/" + std::string(edgecore::backend::to_view(info.method));
    }
  }
  uint64_t argument_count() const noexcept { return graph.inputs.size() + graph.outputs.size(); }
  void buffer_requirement(uint64_t index, edgecore_buffer_requirement &out) const noexcept {
    out.alignment = 256;
    out.granule = 16;
    out.memory_kind = fault("kinds") && index % 2 == 1 ? kMemoryKind + 1 : kMemoryKind;
  }
  Queue &queue;
  Graph graph;
};

// The mutable buffers that the device keeps for a session.
class State {
 public:
  State(Program &program, const Host &) : queue_(program.queue) {}

  Memory &add(const Buffer &buffer, const Host &host) {
    for (Tensor &tensor : tensors_) {
      if (tensor.name != buffer.name) continue;
      if (tensor.shape == buffer.type.shape) return *tensor.memory;
      fail(EDGECORE_INVALID_PROGRAM, "two delegates give the state '%s' different shapes", buffer.name.c_str());
    }
    const std::string key = buffer.name.substr(0, buffer.name.find('/'));
    const edgecore_bytes initial = host.named_data(fault("own-key") ? "initial." + key : key);
    if (initial.size < buffer.type.bytes()) {
      fail(EDGECORE_INVALID_EXTERNAL_DATA, "the initial values of '%s' are too short", buffer.name.c_str());
    }
    static std::map<std::string, std::shared_ptr<Memory>> of_all_sessions;
    auto memory = std::make_shared<Memory>(buffer.type.bytes());
    if (fault("shared")) memory = of_all_sessions.emplace(buffer.name, memory).first->second;
    tensors_.push_back({buffer.name, buffer.type.shape, buffer.type.bytes(), initial.data, memory});
    if (fault("zeros")) {
      write(tensors_.back(), std::vector<uint8_t>(buffer.type.bytes()).data());
    } else {
      write(tensors_.back(), initial.data);
    }
    return *memory;
  }

  uint64_t count() const noexcept { return fault("hidden") ? 0 : tensors_.size(); }
  void describe(uint64_t index, edgecore_state_tensor &out) const noexcept {
    const Tensor &tensor = tensors_[index];
    out.name = edgecore::backend::to_str(tensor.name);
    out.scalar_type = kFloat;
    out.ndim = static_cast<int32_t>(tensor.shape.size());
    out.shape = tensor.shape.data();
    out.bytes = tensor.bytes;
  }
  void reset() {
    if (fault("no-reset")) return;
    for (Tensor &tensor : tensors_) write(tensor, tensor.initial);
  }
  void export_state(uint64_t index, edgecore_memory_block out) {
    ++counters().state_copies;
    queue_.read(*tensors_[index].memory, out.data, fault("half-export") ? out.bytes / 2 : out.bytes);
  }
  void import_state(uint64_t index, edgecore_bytes in) { write(tensors_[index], in.data); }

 private:
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    uint64_t bytes;
    const uint8_t *initial;  // named data, which stay valid until the program is closed
    std::shared_ptr<Memory> memory;
  };
  void write(Tensor &tensor, const uint8_t *from) {
    ++counters().state_copies;
    queue_.write(*tensor.memory, from, tensor.bytes);
  }
  Queue &queue_;
  std::vector<Tensor> tensors_;
};

class Instance {
 public:
  Instance(Delegate &delegate, const Host &host, const edgecore_instance_info &info) : host(host), delegate_(delegate) {
    for (const Buffer &buffer : delegate.graph.buffers) {
      state_.push_back(&edgecore::backend::state_set<State>(info).add(buffer, host));
    }
  }
  Instance(const Instance &) = delete;
  ~Instance() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return busy_ == 0; });  // then the device touches no argument of a pending run
  }

  std::vector<edgecore_memory_need> prepare(const Arguments &args) {
    const Graph &graph = delegate_.graph;
    types_.clear();
    if (fault("first-shapes") && !first_.empty()) {
      types_ = first_;
    } else {
      for (size_t i = 0; i < graph.inputs.size(); ++i) types_.push_back(type_of(args, i, graph.inputs[i]));
      first_ = types_;
    }
    types_.insert(types_.end(), graph.constants.begin(), graph.constants.end());
    for (const Buffer &buffer : graph.buffers) types_.push_back(buffer.type);
    offsets_.clear();
    uint64_t bytes = 0;
    for (const Node &node : graph.nodes) {
      offsets_.push_back(bytes);
      types_.push_back(result_of(node, types_));
      bytes += (types_.back().bytes() + 15) / 16 * 16;
      if (bytes > kMaxBytes) fail(EDGECORE_NOT_SUPPORTED, "the intermediate values need too much memory");
    }
    for (const Buffer &buffer : graph.buffers) {
      const Type &content = types_[buffer.update];
      if (content.dtype != 0 || content.shape != buffer.type.shape) damaged("the shape of a buffer's new content");
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      const Type &type = types_[graph.outputs[i]];
      type_of(args, graph.inputs.size() + i, type);
      args.resize(graph.inputs.size() + i, type.shape.data(), static_cast<int32_t>(type.shape.size()));
    }
    if (bytes > scratch_bytes_) {
      scratch_ = std::make_unique<Memory>(bytes);
      scratch_bytes_ = bytes;
    }
    edgecore_memory_need need = edgecore::backend::memory_need(EDGECORE_MEMORY_SCRATCH, bytes);
    need.space = 1;
    return {need};
  }
  void execute(const Arguments &, const edgecore::backend::Memory &) {}  // run() instead

  int32_t run(const edgecore_execute_info &info, const Arguments &args, uint64_t count) {
    std::vector<edgecore_buffer *> buffers;
    for (uint64_t i = 0; i < count; ++i) {
      const edgecore_tensor &tensor = args.any_tensor(i);
      const int64_t *const begin = tensor.dl.shape, *const end = begin + tensor.dl.ndim;
      if (tensor.buffer == nullptr && std::find(begin, end, 0) == end) {
        fail(EDGECORE_INVALID_ARGUMENT, "argument %d is not on the device", static_cast<int>(i));
      }
      buffers.push_back(tensor.buffer);
    }
    if (old_.empty()) old_ = buffers;
    if (fault("old-buffers")) buffers = old_;
    use(buffers, 1);
    ++counters().executions;
    const char *problem = nullptr;
    const edgecore_completion_fn completion = info.completion;
    if (completion == nullptr) {
      delegate_.queue.run([&] { problem = compute_all(buffers); });
      use(buffers, -1);
      if (problem != nullptr) fail(EDGECORE_INVALID_ARGUMENT, "%s", problem);
      return EDGECORE_OK;
    }
    ++counters().pending;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++busy_;
    }
    delegate_.queue.submit([this, buffers, completion, arg = info.completion_arg] {
      if (fault("early")) {
        completion(arg, EDGECORE_OK, {nullptr, 0});
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      const char *text = compute_all(buffers);
      use(buffers, -1);
      const edgecore_str message = edgecore::backend::to_str(text == nullptr ? "" : text);
      if (!fault("early")) completion(arg, text == nullptr ? EDGECORE_OK : EDGECORE_INVALID_ARGUMENT, message);
      const std::lock_guard<std::mutex> lock(mutex_);  // last: the instance may go now
      --busy_;
      changed_.notify_all();
    });
    return EDGECORE_PENDING;
  }

  const Host host;

 private:
  static void use(const std::vector<edgecore_buffer *> &buffers, int more) {
    for (edgecore_buffer *buffer : buffers) {
      if (buffer != nullptr) buffer->executions += more;
    }
  }

  static Type type_of(const Arguments &args, size_t index, const Type &wanted) {
    const edgecore_tensor &tensor = args.any_tensor(index);
    const edgecore_dl_dtype dtype = tensor.dl.dtype;
    const bool is_int = dtype.code == EDGECORE_DL_INT && dtype.bits == 64;
    const bool is_float = dtype.code == EDGECORE_DL_FLOAT && dtype.bits == 32;
    if (!(wanted.dtype == 0 ? is_float : is_int) || tensor.dl.ndim != static_cast<int32_t>(wanted.shape.size())) {
      fail(EDGECORE_INVALID_ARGUMENT, "argument %zu has another dtype or rank", index);
    }
    for (int32_t d = 0; d < tensor.dl.ndim; ++d) {
      if (tensor.dim_order[d] != d) fail(EDGECORE_INVALID_ARGUMENT, "argument %zu is not contiguous", index);
    }
    return {wanted.dtype, {tensor.dl.shape, tensor.dl.shape + tensor.dl.ndim}};
  }

  // Runs on the thread of the device. Returns an error message, or NULL.
  const char *compute_all(const std::vector<edgecore_buffer *> &buffers) const {
    const Graph &graph = delegate_.graph;
    std::vector<Open> open;
    const auto opened = [&open](Pages *pages) {
      if (pages == nullptr) return static_cast<char *>(nullptr);
      open.emplace_back(*pages);
      return open.back().data;
    };
    std::vector<char *> values;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      values.push_back(opened(buffers[i] == nullptr ? nullptr : &buffers[i]->memory));
    }
    for (const auto &data : graph.data) values.push_back(opened(data.get()));
    for (Memory *state : state_) values.push_back(opened(state));
    char *scratch = opened(scratch_.get());
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      char *result = scratch + offsets_[i];
      if (const char *problem = compute(graph.nodes[i], types_, values, result)) return problem;
      values.push_back(result);
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      edgecore_buffer *buffer = buffers[graph.inputs.size() + i];
      if (buffer == nullptr) continue;
      const size_t bytes = static_cast<size_t>(types_[graph.outputs[i]].bytes());
      std::memcpy(opened(&buffer->memory), values[graph.outputs[i]], bytes);
    }
    std::vector<std::string>
        contents;  // all of them before the first buffer changes: one may be the old content of another
    for (const Buffer &buffer : graph.buffers) {
      contents.emplace_back(values[buffer.update], static_cast<size_t>(buffer.type.bytes()));
    }
    for (size_t i = 0; i < contents.size(); ++i) {
      std::memcpy(values[graph.first_buffer() + i], contents[i].data(), contents[i].size());
    }
    return nullptr;
  }

  const Delegate &delegate_;
  std::vector<Memory *> state_;         // in the state set
  std::vector<Type> types_;             // of each value
  std::vector<Type> first_;             // of the inputs, at the first prepare
  std::vector<edgecore_buffer *> old_;  // the arguments of the first run
  std::vector<uint64_t> offsets_;       // of each node's result in `scratch_`
  std::unique_ptr<Memory> scratch_;
  uint64_t scratch_bytes_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  int busy_ = 0;  // executions that are pending, or whose completion has not returned
};

int32_t EDGECORE_CALL execute(edgecore_instance *handle, const edgecore_execute_info *info, const edgecore_value *args,
                              uint64_t count, uint32_t stride, edgecore_error *error) {
  Instance &instance = edgecore::backend::get<Instance>(handle);
  int32_t code = EDGECORE_OK;
  const int32_t failed = guard(instance.host.table(), error, [&] {
    code = instance.run(*info, Arguments(instance.host, args, count, stride, error), count);
  });
  return failed == EDGECORE_OK ? code : failed;
}

edgecore_backend make_device_table() {
  edgecore_backend table = edgecore::backend::make_table<Driver, Program, Delegate, Instance, State>(
      {"DeviceBackend", "edgecore-device", "1.0", EDGECORE_OWN_THREADS | EDGECORE_VALIDATES_BLOBS});
  table.execute = execute;
  add_buffers<Driver>(table, kMemoryKind);
  return table;
}

}  // namespace
}  // namespace device

extern "C" EDGECORE_BACKEND(device) {
  static const edgecore_backend table = device::make_device_table();
  return &table;
}

#ifdef DEVICE_COUNTERS
extern "C" EDGECORE_EXPORT const device::Counters *device_counters() { return &device::counters(); }
#endif
