// Tests graphs whose sizes in bytes do not fit in 32 bits. A 32-bit processor must refuse them: XNNPACK would compute
// smaller sizes and write past the memory that it allocates. The large constants are pages that are never read.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "edgecore/backend.h"
#include "test_host.h"
#include "xnnpack_generated.h"

extern "C" const edgecore_backend *edgecore_backend_v0(void);

namespace edgecore::xnnpack {
namespace {

constexpr uint32_t kNoId = UINT32_MAX;

enum class Kind : uint32_t { kInternal = 0, kInput = 1, kOutput = 2, kConstant = 3 };

// A graph of fp32 values, whose constants are "zeros", of 256 MiB.
class Limits : public testing::Test {
 protected:
  void SetUp() override {
    if (sizeof(size_t) == 8) GTEST_SKIP() << "this processor has addresses for all of it";
    zeros_ = mmap(nullptr, kZeros, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(zeros_, MAP_FAILED);
  }
  void TearDown() override {
    if (zeros_ != nullptr) munmap(zeros_, kZeros);
  }

  // Adds a value; its id is the number of earlier values.
  void add(const std::vector<uint32_t> &dims, Kind kind) {
    const auto id = static_cast<uint32_t>(values_.size());
    const bool is_argument = kind == Kind::kInput || kind == Kind::kOutput;
    const auto tensor = wire::CreateTensorValueDirect(b_, wire::DataType_fp32, static_cast<uint32_t>(dims.size()),
                                                      &dims, kind == Kind::kConstant ? 1 : 0, is_argument ? id : kNoId,
                                                      is_argument ? static_cast<uint32_t>(kind) : 0, id);
    values_.push_back(wire::CreateValue(b_, wire::ValueUnion_TensorValue, tensor.Union()));
    if (kind == Kind::kInput) inputs_.push_back(id);
    if (kind == Kind::kOutput) outputs_.push_back(id);
  }

  void multiply(uint32_t left, uint32_t right, uint32_t out) {
    const auto node = wire::CreateBinary(b_, left, right, out);
    nodes_.push_back(wire::CreateNode(b_, wire::NodeUnion_BatchMatrixMultiply, node.Union()));
  }

  // Loads the graph. Returns the error message, or "".
  std::string load() {
    const std::vector<flatbuffers::Offset<wire::ConstantDataOffset>> data = {
        wire::CreateConstantDataOffset(b_), wire::CreateConstantDataOffsetDirect(b_, UINT64_MAX, kZeros, "zeros")};
    const auto count = static_cast<uint32_t>(values_.size());
    b_.Finish(wire::CreateGraphDirect(b_, "0", &nodes_, &values_, count, &inputs_, &outputs_, &data), "XN01");
    const edgecore_test_data named = {"zeros", static_cast<const uint8_t *>(zeros_), kZeros};
    int32_t code = 0;
    char text[600] = {};
    edgecore_test_session *session = edgecore_test_open(edgecore_backend_v0(), 1, b_.GetBufferPointer(), b_.GetSize(),
                                                        &named, 1, &code, text, sizeof(text));
    if (session == nullptr) return text;
    edgecore_test_close(session);
    return "";
  }

  static constexpr size_t kZeros = 1u << 28;
  void *zeros_ = nullptr;
  flatbuffers::FlatBufferBuilder b_;
  std::vector<flatbuffers::Offset<wire::Value>> values_;
  std::vector<flatbuffers::Offset<wire::Node>> nodes_;
  std::vector<uint32_t> inputs_, outputs_;
};

TEST_F(Limits, ATensorOfMoreBytesThanThereAreAddresses) {
  add({1u << 15, 1}, Kind::kInput);
  add({1, 1u << 15}, Kind::kInput);
  add({1u << 15, 1u << 15}, Kind::kOutput);
  multiply(0, 1, 2);
  EXPECT_NE(load().find("value 2: a shape of [32768, 32768] is empty or too large"), std::string::npos);
}

// Each of the 2^26 groups is padded to the eight columns of a tile: 2^32 bytes.
TEST_F(Limits, PackedWeights) {
  constexpr uint32_t kGroups = 1u << 26;
  add({1, 1, 1, kGroups}, Kind::kInput);
  add({kGroups, 1, 1, 1}, Kind::kConstant);
  add({1, 1, 1, kGroups}, Kind::kOutput);
  wire::ConvolutionBuilder convolution(b_);
  convolution.add_kernel_height(1);
  convolution.add_kernel_width(1);
  convolution.add_subsampling_height(1);
  convolution.add_subsampling_width(1);
  convolution.add_dilation_height(1);
  convolution.add_dilation_width(1);
  convolution.add_group_input_channels(1);
  convolution.add_group_output_channels(1);
  convolution.add_groups(kGroups);
  convolution.add_input1_id(0);
  convolution.add_filter_id(1);
  convolution.add_bias_id(kNoId);
  convolution.add_output_id(2);
  const auto node = convolution.Finish();
  nodes_.push_back(wire::CreateNode(b_, wire::NodeUnion_Conv2d, node.Union()));
  EXPECT_NE(load().find("at node 0 the packed weights could need"), std::string::npos);
}

// The same for an operand that is packed in each run.
TEST_F(Limits, PackedOperand) {
  constexpr uint32_t kMatrices = 1u << 26;
  add({kMatrices, 1, 1}, Kind::kInput);
  add({kMatrices, 1, 1}, Kind::kInput);
  add({kMatrices, 1, 1}, Kind::kOutput);
  multiply(0, 1, 2);
  EXPECT_NE(load().find("at node 0 the packed weights could need"), std::string::npos);
}

// Two values that exist at the same time, of 768 MiB and more than 256 MiB.
TEST_F(Limits, WorkingMemory) {
  constexpr uint32_t kRows = 1u << 13, kColumns = 3 * kRows, kMore = kRows + 64;
  add({kRows, 1}, Kind::kInput);
  add({1, kColumns}, Kind::kInput);
  add({kRows, kColumns}, Kind::kInternal);
  add({kColumns, kMore}, Kind::kInput);
  add({kRows, kMore}, Kind::kInternal);
  add({kMore, 1}, Kind::kInput);
  add({kRows, 1}, Kind::kOutput);
  multiply(0, 1, 2);
  multiply(2, 3, 4);
  multiply(4, 5, 6);
  EXPECT_NE(load().find("at node 1 the graph needs more working memory than the limit of 1073741823 bytes"),
            std::string::npos);
}

}  // namespace
}  // namespace edgecore::xnnpack
