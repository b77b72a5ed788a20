// libFuzzer target: loads any bytes as a delegate blob, prepares and executes it with two sets of shapes, and exports
// and imports its state. This target has named data (constants that a .pte file stores outside of the blob) for every
// key of at least 16 bytes, so that few blobs fail because of a missing key. The mutations know the schema
// (runtime_cpp/fuzz/mutate_file.h).
//
//   blob_fuzz CORPUS   the folder CORPUS should first contain blobs of compiled models (tests/fuzz/seeds.py)
#include <algorithm>
#include <cstring>
#include <vector>

#include "blob.h"
#include "blob_kind.h"
#include "check.h"
#include "guarded_memory.h"
#include "scalar_types.h"
#include "tally.h"
#include "test_host.h"

extern "C" const edgecore_backend *edgecore_backend_v0(void);

EDGECORE_FUZZ_MUTATORS(edgecore::xnnpack::blob_kind())

namespace {

using namespace edgecore::xnnpack;

constexpr uint64_t kConstantBytes = 1 << 18;
constexpr uint64_t kMinKey = 16;  // minimum length in bytes of a constant's key

// A graph beyond these limits is loaded but not run, so that an input takes only milliseconds.
constexpr size_t kMaxArguments = 16;
constexpr uint64_t kMaxElements = 1 << 14;  // maximum number of elements of a value
constexpr uint64_t kMaxWindow = 1 << 10;    // maximum number of elements of a convolution kernel or pooling window
constexpr size_t kMaxNodes = 64;

const std::vector<float> &any_constants() {
  static const std::vector<float> constants = [] {
    std::vector<float> values(kConstantBytes / sizeof(float));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i % 97 + 1);
    return values;
  }();
  return constants;
}

int32_t EDGECORE_CALL any_data(edgecore_scope *, edgecore_str key, edgecore_bytes *out, edgecore_error *) {
  // Only weights have long keys. A short key names a state (mutable buffer): without data, the state begins with zeros.
  if (key.size < kMinKey) return EDGECORE_NOT_FOUND;
  *out = {reinterpret_cast<const uint8_t *>(any_constants().data()), kConstantBytes};
  return EDGECORE_OK;
}

void EDGECORE_CALL no_log(edgecore_scope *, int32_t, edgecore_str) {}

int32_t scalar_type(Type type) {
  switch (type) {
    case Type::kFp16:
      return kHalf;
    case Type::kQint8:
      return kChar;
    case Type::kQuint8:
      return kByte;
    case Type::kInt32:
      return kInt;
    case Type::kInt64:
      return kLong;
    default:
      return kFloat;
  }
}

bool is_small(const Graph &graph) {
  if (graph.externals.size() > kMaxArguments || graph.nodes.size() > kMaxNodes) return false;
  return std::all_of(graph.values.begin(), graph.values.end(),
                     [](const Value &value) { return element_count(value.shape) <= kMaxElements; }) &&
         std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const edgecore::xnnpack::Node &node) {
           return uint64_t{node.window.height} * node.window.width <= kMaxWindow;
         });
}

// Calls the delegate with one blob as edgecore's runtime does, but without the runtime's checks.
class Session {
 public:
  Session(const edgecore_host *host, edgecore_scope *scope) : backend_(*edgecore_backend_v0()), scope_(scope) {
    backend_.driver_create(host, scope, &driver_, nullptr);
  }

  ~Session() {
    if (instance_ != nullptr) backend_.instance_destroy(instance_);
    if (state_ != nullptr) backend_.state_set_destroy(state_);
    if (delegate_ != nullptr) backend_.delegate_destroy(delegate_);
    if (program_ != nullptr) backend_.program_close(program_);
    if (driver_ != nullptr) backend_.driver_destroy(driver_);
  }
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  bool load(const uint8_t *blob, uint64_t size) {
    edgecore_program_info program_info = {};
    program_info.header = header<edgecore_program_info>();
    program_info.scope = scope_;
    if (backend_.program_open(driver_, &program_info, &program_, nullptr) != EDGECORE_OK) return false;
    edgecore_delegate_info info = {};
    info.header = header<edgecore_delegate_info>();
    info.scope = scope_;
    info.blob = {blob, size};
    return backend_.delegate_load(program_, &info, &delegate_, nullptr) == EDGECORE_OK;
  }

  bool create_instance() {
    const edgecore_state_set_info state_info = {header<edgecore_state_set_info>(), scope_};
    if (backend_.state_set_create != nullptr &&
        backend_.state_set_create(program_, &state_info, &state_, nullptr) != EDGECORE_OK) {
      return false;
    }
    const edgecore_instance_info info = {header<edgecore_instance_info>(), scope_, 0, 0, state_};
    return backend_.instance_create(delegate_, &info, &instance_, nullptr) == EDGECORE_OK;
  }

  // Executes the delegate twice with the graph's input shapes. If `halve`, each input dim larger than 1 is halved.
  // Returns true if both executions succeed.
  bool run(const Graph &graph, bool halve) {
    const size_t count = static_cast<size_t>(backend_.argument_count(delegate_));
    std::vector<edgecore_tensor> tensors(count);
    std::vector<Layout> layouts(count);
    std::vector<edgecore_value> args(count);
    for (size_t i = 0; i < count; ++i) {
      args[i] = {};
      if (i >= graph.externals.size() || graph.externals[i] == kNone) continue;
      const Value &value = graph.values[graph.externals[i]];
      describe(value, halve && value.role == Role::kInput, &layouts[i], &tensors[i]);
      edgecore_buffer_requirement need = {};
      need.header = header<edgecore_buffer_requirement>();
      backend_.buffer_requirement(delegate_, i, &need);
      tensors[i].dl.data = memory().take(i, value.bytes, need.tail_padding);
      args[i].tag = EDGECORE_TAG_TENSOR;
      args[i].as.tensor = &tensors[i];
    }
    edgecore_prepared prepared = {};
    prepared.header = header<edgecore_prepared>();
    if (backend_.prepare(instance_, args.data(), count, sizeof(edgecore_value), &prepared, nullptr) != EDGECORE_OK) {
      return false;
    }
    edgecore_execute_info info = {};
    info.header = header<edgecore_execute_info>();
    const auto execute = [&] {
      return backend_.execute(instance_, &info, args.data(), count, sizeof(edgecore_value), nullptr) == EDGECORE_OK;
    };
    return execute() && execute();
  }

  // Exports every tensor of the state, imports it again, and resets the state.
  void move_state() {
    for (uint64_t i = 0; state_ != nullptr && i < backend_.state_count(state_); ++i) {
      edgecore_state_tensor tensor = {};
      tensor.header = header<edgecore_state_tensor>();
      backend_.state_describe(state_, i, &tensor);
      std::vector<uint8_t> bytes(static_cast<size_t>(tensor.bytes));
      backend_.export_state(state_, i, {bytes.data(), bytes.size()}, nullptr);
      backend_.import_state(state_, i, {bytes.data(), bytes.size()}, nullptr);
    }
    if (state_ != nullptr) backend_.reset(state_, nullptr);
  }

 private:
  struct Layout {
    int64_t shape[edgecore::xnnpack::kMaxRank];
    uint8_t dim_order[edgecore::xnnpack::kMaxRank];
  };

  template <typename T>
  static edgecore_header header() {
    return {sizeof(T), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
  }

  static edgecore::xnnpack::GuardedMemory &memory() {
    static edgecore::xnnpack::GuardedMemory slots(kMaxArguments, kMaxElements * 16);
    return slots;
  }

  static void describe(const Value &value, bool halve, Layout *layout, edgecore_tensor *tensor) {
    for (uint32_t d = 0; d < value.shape.rank; ++d) {
      layout->shape[d] = static_cast<int64_t>(halve ? (value.shape[d] + 1) / 2 : value.shape[d]);
      layout->dim_order[d] = static_cast<uint8_t>(d);
    }
    *tensor = {};
    tensor->header = header<edgecore_tensor>();
    tensor->scalar_type = scalar_type(value.type);
    tensor->dl.device_type = EDGECORE_DEVICE_CPU;
    tensor->dl.ndim = static_cast<int32_t>(value.shape.rank);
    tensor->dl.shape = layout->shape;
    tensor->dim_order = layout->dim_order;
    tensor->capacity = value.bytes;
  }

  const edgecore_backend &backend_;
  edgecore_scope *scope_;
  edgecore_driver *driver_ = nullptr;
  edgecore_program *program_ = nullptr;
  edgecore_delegate *delegate_ = nullptr;
  edgecore_state_set *state_ = nullptr;
  edgecore_instance *instance_ = nullptr;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const edgecore_host host = [] {
    edgecore_host changed = *edgecore_test_host();
    changed.named_data = any_data;
    changed.log = no_log;
    return changed;
  }();
  static edgecore_scope *scope = edgecore_test_scope_new(1);

  // Returns -1 for a refused blob. This keeps it out of libFuzzer's corpus, because it would be a poor seed.
  Session session(&host, scope);
  if (!session.load(data, size)) return -1;
  Graph graph = edgecore::xnnpack::read_blob({data, size}, edgecore::backend::Host(&host, scope));
  edgecore::xnnpack::check_graph(&graph);
  if (!is_small(graph) || !session.create_instance()) return -1;
  static edgecore::fuzz::Tally tally;
  if (session.run(graph, false)) tally.add();
  session.move_state();
  session.run(graph, true);
  return 0;
}
