// Tests a delegate with a KV cache: it writes only new rows, and reads the cache in place.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "edgecore/backend.hpp"
#include "test_host.h"
#include "xnnpack_generated.h"

extern "C" const edgecore_backend *edgecore_backend_v0(void);

namespace edgecore::xnnpack {
namespace {

constexpr uint32_t kHeads = 4, kKeyHeads = 2, kWidth = 64, kNoId = UINT32_MAX;
constexpr uintptr_t kPage = 4096;

// The blob of one attention layer: inputs query [1, 4, 1, 64], key and value [1, 2, 1, 64], positions [1], mask
// [1, capacity]; output [1, 4, 1, 64]; states "k" and "v" [1, 2, capacity, 64].
struct Layer {
  explicit Layer(uint32_t capacity) : capacity(capacity) {
    flatbuffers::FlatBufferBuilder b;
    std::vector<flatbuffers::Offset<wire::Value>> values;
    const auto add = [&](const std::vector<uint32_t> &dims, uint32_t flags, wire::DataType type, uint32_t constant) {
      const auto id = static_cast<uint32_t>(values.size());
      const auto tensor = wire::CreateTensorValueDirect(b, type, static_cast<uint32_t>(dims.size()), &dims, constant,
                                                        flags == 0 ? kNoId : id, flags, id);
      values.push_back(wire::CreateValue(b, wire::ValueUnion_TensorValue, tensor.Union()));
    };
    const std::vector<uint32_t> cache = {1, kKeyHeads, capacity, kWidth};
    add({1, kHeads, 1, kWidth}, 1, wire::DataType_fp32, 0);
    add({1, kKeyHeads, 1, kWidth}, 1, wire::DataType_fp32, 0);
    add({1, kKeyHeads, 1, kWidth}, 1, wire::DataType_fp32, 0);
    add({1}, 1, wire::DataType_int64, 0);
    add({1, capacity}, 1, wire::DataType_fp32, 0);
    add({1, kHeads, 1, kWidth}, 2, wire::DataType_fp32, 0);
    for (int i = 0; i < 4; ++i) add(cache, 0, wire::DataType_fp32, 0);
    add({1}, 0, wire::DataType_fp32, 1);
    const std::vector<flatbuffers::Offset<wire::Node>> nodes = {
        wire::CreateNode(b, wire::NodeUnion_CacheUpdate, wire::CreateCacheUpdate(b, 6, 1, 3, 8, 2).Union()),
        wire::CreateNode(b, wire::NodeUnion_CacheUpdate, wire::CreateCacheUpdate(b, 7, 2, 3, 9, 2).Union()),
        wire::CreateNode(b, wire::NodeUnion_ScaledDotProductAttention,
                         wire::CreateScaledDotProductAttention(b, 0, 8, 9, 10, 4, 5).Union())};
    const std::vector<flatbuffers::Offset<wire::ConstantDataOffset>> data = {
        wire::CreateConstantDataOffset(b), wire::CreateConstantDataOffsetDirect(b, UINT64_MAX, 4, "scale")};
    const std::vector<flatbuffers::Offset<wire::State>> states = {wire::CreateStateDirect(b, 6, "k"),
                                                                  wire::CreateStateDirect(b, 7, "v")};
    const std::vector<uint32_t> inputs = {0, 1, 2, 3, 4}, outputs = {5};
    b.Finish(wire::CreateGraphDirect(b, "0", &nodes, &values, 6, &inputs, &outputs, &data, &states), "XE01");
    blob.assign(b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize());
    for (auto *array : {&query, &key, &value, &output}) array->resize(kHeads * kWidth + 16);
    mask.assign(capacity + 16, -INFINITY);

    int32_t code = 0;
    char text[600] = {};
    session =
        edgecore_test_open(edgecore_backend_v0(), 2, blob.data(), blob.size(), &named, 1, &code, text, sizeof(text));
    if (session == nullptr) ADD_FAILURE() << text;
  }
  ~Layer() { edgecore_test_close(session); }
  Layer(const Layer &) = delete;
  Layer &operator=(const Layer &) = delete;

  // Runs one token. Returns the error message, or "".
  std::string step(int64_t position) {
    for (uint32_t i = 0; i < kHeads * kWidth; ++i) {
      const auto x = static_cast<float>(position * 1000 + i);
      query[i] = std::sin(x), key[i] = std::cos(x), value[i] = std::sin(x / 3);
    }
    if (position >= 0 && position < capacity) mask[static_cast<size_t>(position)] = 0;
    edgecore_test_tensor tensors[] = {{query.data(), 4 * query.size(), 6, 4, {1, kHeads, 1, kWidth}, {0, 1, 2, 3}},
                                      {key.data(), 4 * key.size(), 6, 4, {1, kKeyHeads, 1, kWidth}, {0, 1, 2, 3}},
                                      {value.data(), 4 * value.size(), 6, 4, {1, kKeyHeads, 1, kWidth}, {0, 1, 2, 3}},
                                      {&position, sizeof(position), 4, 1, {1}, {0}},
                                      {mask.data(), 4 * mask.size(), 6, 2, {1, capacity}, {0, 1}},
                                      {output.data(), 4 * output.size(), 6, 4, {1, kHeads, 1, kWidth}, {0, 1, 2, 3}}};
    char text[600] = {};
    return edgecore_test_run(session, tensors, 6, text, sizeof(text)) == EDGECORE_OK ? "" : text;
  }

  // Returns the memory of a state.
  float *state(const char *name) const {
    auto &set = backend::get<backend::HostState>(edgecore_test_state(session));
    const std::vector<int64_t> shape = {1, kKeyHeads, capacity, kWidth};
    return static_cast<float *>(set.add(name, 6, shape, 4 * uint64_t{kKeyHeads} * capacity * kWidth, {nullptr, 0}));
  }

  const uint32_t capacity;
  const float scale = 0.125f;
  const edgecore_test_data named = {"scale", reinterpret_cast<const uint8_t *>(&scale), sizeof(scale)};
  std::vector<uint8_t> blob;
  std::vector<float> query, key, value, mask, output;
  edgecore_test_session *session = nullptr;
};

std::atomic<uint32_t> written_pages;

// Counts a write to a protected page, and then allows writes to that page.
void on_write(int, siginfo_t *info, void *) {
  ++written_pages;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr) / kPage * kPage;
  mprotect(reinterpret_cast<void *>(address), kPage, PROT_READ | PROT_WRITE);
}

// Makes the whole pages of the states read-only during its lifetime.
class WriteProtection {
 public:
  explicit WriteProtection(const Layer &layer) {
    struct sigaction action = {};
    action.sa_sigaction = on_write;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_);
    const size_t bytes = 4 * size_t{kKeyHeads} * layer.capacity * kWidth;
    for (const char *name : {"k", "v"}) {
      const auto start = reinterpret_cast<uintptr_t>(layer.state(name));
      ranges_.push_back({(start + kPage - 1) / kPage * kPage, (start + bytes) / kPage * kPage});
    }
    protect(PROT_READ);
  }
  ~WriteProtection() {
    protect(PROT_READ | PROT_WRITE);
    sigaction(SIGSEGV, &before_, nullptr);
  }
  void protect(int access) const {
    for (const auto &range : ranges_) mprotect(reinterpret_cast<void *>(range[0]), range[1] - range[0], access);
  }

 private:
  struct sigaction before_;
  std::vector<std::array<uintptr_t, 2>> ranges_;
};

TEST(Cache, AStepWritesOnlyThePagesOfItsRowsWhateverTheCapacity) {
  for (uint32_t capacity : {128u, 4096u}) {
    Layer layer(capacity);
    ASSERT_EQ(layer.step(0), "");
    for (int64_t position : {20, 64, 100}) {
      const WriteProtection protection(layer);
      written_pages = 0;
      ASSERT_EQ(layer.step(position), "");
      // Each of the two states has one row for each of two heads. A row has 256 bytes, which may be on two pages.
      EXPECT_GE(written_pages, 4u) << "capacity " << capacity;
      EXPECT_LE(written_pages, 8u) << "capacity " << capacity;
    }
  }
}

TEST(Cache, AttentionIsThatOverTheRowsSoFar) {
  Layer layer(32);
  std::vector<std::vector<float>> keys, values;
  for (int64_t position = 0; position < 20; ++position) {
    ASSERT_EQ(layer.step(position), "");
    keys.push_back(layer.key);
    values.push_back(layer.value);
    for (uint32_t head = 0; head < kHeads; ++head) {
      const uint32_t shared = head / (kHeads / kKeyHeads) * kWidth;
      std::vector<double> weights;
      double total = 0;
      for (const std::vector<float> &key : keys) {
        double score = 0;
        for (uint32_t i = 0; i < kWidth; ++i) score += double{layer.query[head * kWidth + i]} * double{key[shared + i]};
        weights.push_back(std::exp(score * double{layer.scale}));
        total += weights.back();
      }
      for (uint32_t i = 0; i < kWidth; ++i) {
        double sum = 0;
        for (size_t k = 0; k < values.size(); ++k) sum += weights[k] / total * double{values[k][shared + i]};
        ASSERT_NEAR(layer.output[head * kWidth + i], sum, 1e-5) << position;
      }
    }
  }
}

TEST(Cache, APositionOutsideOfTheCacheIsAnErrorAndWritesNothing) {
  Layer layer(32);
  ASSERT_EQ(layer.step(0), "");
  const std::vector<float> before(layer.state("k"), layer.state("k") + kKeyHeads * 32 * kWidth);
  EXPECT_EQ(layer.step(32), "position 32 is outside of the state 'k', whose dim 2 has 32 elements");
  EXPECT_EQ(layer.step(-33), "position -33 is outside of the state 'k', whose dim 2 has 32 elements");
  EXPECT_TRUE(std::equal(before.begin(), before.end(), layer.state("k")));
}

TEST(Cache, ANegativePositionCountsFromTheEnd) {
  Layer layer(32);
  ASSERT_EQ(layer.step(-1), "");
  EXPECT_EQ(layer.state("k")[31 * kWidth], layer.key[0]);
}

TEST(Cache, StatesNeedTheIdentifierOfBlobsWithStates) {
  const Layer layer(32);
  std::vector<uint8_t> blob = layer.blob;
  std::memcpy(blob.data() + 4, "XN01", 4);
  int32_t code = 0;
  char text[600] = {};
  EXPECT_EQ(edgecore_test_open(edgecore_backend_v0(), 1, blob.data(), blob.size(), &layer.named, 1, &code, text,
                               sizeof(text)),
            nullptr);
  EXPECT_STREQ(text, "the blob has states, int64 values or attention nodes, but not the identifier XE01");
}

}  // namespace
}  // namespace edgecore::xnnpack
