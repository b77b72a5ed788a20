// Tests outputs that are copied into a part of another output, like the last state of recurrent layers. While planning,
// XNNPACK drops a copy whose source and target have the same address, so the placeholder addresses of arguments must be
// at least their sizes apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "edgecore/backend.h"
#include "test_host.h"
#include "xnnpack_generated.h"

extern "C" const edgecore_backend *edgecore_backend_v0(void);

namespace edgecore::xnnpack {
namespace {

constexpr uint32_t kNoId = UINT32_MAX;
constexpr uint32_t kInput = 1, kOutput = 2;

using Dims = std::vector<uint32_t>;

// Makes a blob of fp32 values. Inputs: 0 of [rows, width], 1 of [between], 2 of [1, width]. Outputs: 3 is the
// concatenation [rows + 1, width] of tanh(0) and of 5, 4 is abs(1), 5 is tanh(2).
std::vector<uint8_t> make_blob(uint32_t rows, uint32_t width, uint32_t between) {
  flatbuffers::FlatBufferBuilder b;
  std::vector<flatbuffers::Offset<wire::Value>> values;
  const auto add = [&](const Dims &dims, uint32_t flags) {
    const auto id = static_cast<uint32_t>(values.size());
    const auto tensor = wire::CreateTensorValueDirect(b, wire::DataType_fp32, static_cast<uint32_t>(dims.size()), &dims,
                                                      0, flags == 0 ? kNoId : id, flags, id);
    values.push_back(wire::CreateValue(b, wire::ValueUnion_TensorValue, tensor.Union()));
  };
  add({rows, width}, kInput);
  add({between}, kInput);
  add({1, width}, kInput);
  add({rows + 1, width}, kOutput);
  add({between}, kOutput);
  add({1, width}, kOutput);
  add({rows, width}, 0);
  const auto node = [&](wire::NodeUnion type, flatbuffers::Offset<void> table) {
    return wire::CreateNode(b, type, table);
  };
  const std::vector<flatbuffers::Offset<wire::Node>> nodes = {
      node(wire::NodeUnion_Tanh, wire::CreateUnary(b, 0, 6).Union()),
      node(wire::NodeUnion_Abs, wire::CreateUnary(b, 1, 4).Union()),
      node(wire::NodeUnion_Tanh, wire::CreateUnary(b, 2, 5).Union()),
      node(wire::NodeUnion_Concatenate2, wire::CreateConcatenate(b, 0, 6, 5, kNoId, kNoId, 3).Union())};
  const std::vector<flatbuffers::Offset<wire::ConstantDataOffset>> data = {wire::CreateConstantDataOffset(b)};
  const Dims inputs = {0, 1, 2}, outputs = {3, 4, 5};
  b.Finish(wire::CreateGraphDirect(b, "0", &nodes, &values, 6, &inputs, &outputs, &data), "XN01");
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

// Runs the blob twice, with outputs that are filled with 7 before, and checks all of them.
void check(uint32_t rows, uint32_t width, uint32_t between) {
  SCOPED_TRACE(testing::Message() << rows << " rows, width " << width << ", " << between << " elements between");
  const std::vector<uint8_t> blob = make_blob(rows, width, between);
  int32_t code = 0;
  char text[600] = {};
  edgecore_test_session *session =
      edgecore_test_open(edgecore_backend_v0(), 1, blob.data(), blob.size(), nullptr, 0, &code, text, sizeof(text));
  ASSERT_NE(session, nullptr) << text;
  for (int run = 0; run < 2; ++run) {
    const Dims sizes = {rows * width, between, width, (rows + 1) * width, between, width};
    std::vector<std::vector<float>> memory;
    for (uint32_t size : sizes) memory.emplace_back(size + 4, 7.0F);  // XNNPACK reads slightly past the end of an input
    for (size_t i = 0; i < 3; ++i) {
      for (uint32_t j = 0; j < sizes[i]; ++j) memory[i][j] = std::sin(static_cast<float>(j + 100 * i + 1));
    }
    const int64_t shapes[][2] = {{rows, width}, {between, 0}, {1, width}, {rows + 1, width}, {between, 0}, {1, width}};
    std::vector<edgecore_test_tensor> tensors;
    for (size_t i = 0; i < memory.size(); ++i) {
      const int32_t rank = shapes[i][1] == 0 ? 1 : 2;
      tensors.push_back(
          {memory[i].data(), memory[i].size() * sizeof(float), 6, rank, {shapes[i][0], shapes[i][1]}, {0, 1}});
    }
    ASSERT_EQ(edgecore_test_run(session, tensors.data(), tensors.size(), text, sizeof(text)), EDGECORE_OK) << text;
    for (uint32_t j = 0; j < (rows + 1) * width; ++j) {
      const float x = j < rows * width ? memory[0][j] : memory[2][j - rows * width];
      EXPECT_NEAR(memory[3][j], std::tanh(x), 1e-5) << "joined, element " << j;
    }
    for (uint32_t j = 0; j < between; ++j) EXPECT_EQ(memory[4][j], std::fabs(memory[1][j])) << "between, element " << j;
    for (uint32_t j = 0; j < width; ++j) EXPECT_NEAR(memory[5][j], std::tanh(memory[2][j]), 1e-5) << "last";
  }
  edgecore_test_close(session);
}

TEST(CopiedOutputs, EveryCopyRunsWhateverTheSizesAre) {
  for (uint32_t rows = 1; rows <= 6; ++rows) {
    for (uint32_t width = 1; width <= 9; ++width) check(rows, width, 1);
  }
}

TEST(CopiedOutputs, AnArgumentBetweenTheTwoChangesNothing) {
  for (uint32_t between : {2U, 4U, 5U, 8U, 16U, 17U}) {
    for (uint32_t width : {4U, 8U, 12U, 16U}) check(1, width, between);
  }
}

}  // namespace
}  // namespace edgecore::xnnpack
