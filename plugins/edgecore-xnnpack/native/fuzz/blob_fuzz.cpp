// libFuzzer target: loads any bytes as a delegate blob, prepares and executes it. Constants that a .pte file stores
// outside of the blob, under a key (named data), exist here for every key, so that no blob fails for a missing key.
//
//   blob_fuzz CORPUS   the folder CORPUS should contain real blobs at first
#include <cstdint>
#include <cstring>
#include <vector>

#include "blob.h"
#include "check.h"
#include "test_host.h"

extern "C" const edgecore_backend *edgecore_backend_v0(void);

namespace {

constexpr uint64_t kConstantBytes = 1 << 20;
constexpr uint64_t kMaxBytes = 1 << 22;  // of an argument
constexpr size_t kPadding = 16;

const std::vector<float> &any_constants() {
  static const std::vector<float> constants = [] {
    std::vector<float> values(kConstantBytes / sizeof(float));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i % 97 + 1);
    return values;
  }();
  return constants;
}

int32_t EDGECORE_CALL any_data(edgecore_scope *, edgecore_str, edgecore_bytes *out, edgecore_error *) {
  *out = {reinterpret_cast<const uint8_t *>(any_constants().data()), kConstantBytes};
  return EDGECORE_OK;
}

int32_t scalar_type(edgecore::xnnpack::Type type) {
  using edgecore::xnnpack::Type;
  switch (type) {
    case Type::kFp16:
      return 5;
    case Type::kQint8:
      return 1;
    case Type::kQuint8:
      return 0;
    case Type::kInt32:
      return 3;
    default:
      return 6;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static edgecore_host host = *edgecore_test_host();
  host.named_data = any_data;
  static edgecore_scope *scope = edgecore_test_scope_new(1);

  edgecore::xnnpack::Graph graph;
  bool is_read = false;
  try {
    graph = edgecore::xnnpack::read_blob({data, size}, edgecore::backend::Host(&host, scope));
    is_read = true;
    edgecore::xnnpack::check_graph(&graph);
  } catch (const edgecore::backend::Failure &) {
    return is_read ? 0 : -1;  // -1: libFuzzer does not add the input to the corpus
  }

  std::vector<edgecore_test_tensor> tensors(graph.externals.size());
  std::vector<std::vector<uint8_t>> memory;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (graph.externals[i] == edgecore::xnnpack::kNone) continue;
    const edgecore::xnnpack::Value &value = graph.values[graph.externals[i]];
    if (value.bytes > kMaxBytes) return 0;
    memory.emplace_back(value.bytes + kPadding);
    tensors[i].data = memory.back().data();
    tensors[i].capacity = value.bytes;
    tensors[i].scalar_type = scalar_type(value.type);
    tensors[i].ndim = static_cast<int32_t>(value.shape.rank);
    for (uint32_t d = 0; d < value.shape.rank; ++d) {
      tensors[i].shape[d] = static_cast<int64_t>(value.shape[d]);
      tensors[i].dim_order[d] = static_cast<uint8_t>(d);
    }
  }
  int32_t code = 0;
  edgecore_test_session *session =
      edgecore_test_open_with_host(edgecore_backend_v0(), &host, 1, data, size, nullptr, 0, nullptr, &code, nullptr, 0);
  if (session == nullptr) return 0;
  edgecore_test_run(session, tensors.data(), tensors.size(), nullptr, 0);
  edgecore_test_close(session);
  return 0;
}
