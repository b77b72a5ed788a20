// Tests that nothing leaks for a graph that XNNPACK refuses only while preparing the nodes.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstring>
#include <vector>

#include "edgecore/backend.h"
#include "fp16.h"
#include "test_host.h"
#include "xnnpack_generated.h"

extern "C" const edgecore_backend *edgecore_backend_v0(void);

namespace edgecore::xnnpack {
namespace {

constexpr uint32_t kNoId = UINT32_MAX;

// A linear layer over [1, 8] in fp16 whose outputs are limited to [0, 0], which XNNPACK refuses in fp16.
std::vector<uint8_t> refused_graph() {
  flatbuffers::FlatBufferBuilder b;
  const auto value = [&](std::vector<uint32_t> dims, uint32_t data, uint32_t argument, uint32_t flags, uint32_t id) {
    const auto rank = static_cast<uint32_t>(dims.size());
    const auto tensor = wire::CreateTensorValueDirect(b, wire::DataType_fp16, rank, &dims, data, argument, flags, id);
    return wire::CreateValue(b, wire::ValueUnion_TensorValue, tensor.Union());
  };
  const std::vector<flatbuffers::Offset<wire::Value>> values = {value({1, 8}, 0, 0, 1, 0), value({1, 8}, 0, 1, 2, 1),
                                                                value({8, 8}, 1, kNoId, 0, 2)};
  const auto linear = wire::CreateFullyConnected(b, 0, 2, kNoId, 1);
  const auto range = wire::CreateOutputMinMax(b, 0, 0);
  const std::vector<flatbuffers::Offset<wire::Node>> nodes = {
      wire::CreateNode(b, wire::NodeUnion_FullyConnected, linear.Union(), 0, range)};
  const std::vector<flatbuffers::Offset<wire::ConstantDataOffset>> data = {
      wire::CreateConstantDataOffset(b), wire::CreateConstantDataOffsetDirect(b, UINT64_MAX, 128, "filter")};
  const std::vector<uint32_t> inputs = {0}, outputs = {1};
  b.Finish(wire::CreateGraphDirect(b, "0", &nodes, &values, 2, &inputs, &outputs, &data), "XN01");
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

TEST(BuildRuntime, LeavesNoMemoryBehindWhereXnnpackRefusesANode) {
  const std::vector<uint8_t> blob = refused_graph(), filter(128);
  const edgecore_test_data named = {"filter", filter.data(), filter.size()};
  char text[600] = {};
  const auto open = [&] {
    int32_t code = 0;
    return edgecore_test_open(edgecore_backend_v0(), 1, blob.data(), blob.size(), &named, 1, &code, text, sizeof(text));
  };
  if (edgecore_test_session *session = open(); !has_fp16_kernels()) {  // known after the first load
    edgecore_test_close(session);
    GTEST_SKIP() << "this processor computes the graph in fp32, which has such a range";
  }
  const auto load = [&] {
    EXPECT_EQ(open(), nullptr);
    ASSERT_NE(std::strstr(text, "could not prepare"), nullptr) << text;
  };
  load();  // allocates memory that the process keeps
  const size_t before = mallinfo2().uordblks;
  constexpr size_t kLoads = 1000;
  for (size_t i = 0; i < kLoads; ++i) load();
  EXPECT_LT(mallinfo2().uordblks, before + kLoads * 16);  // LeakSanitizer detects every byte
}

}  // namespace
}  // namespace edgecore::xnnpack
