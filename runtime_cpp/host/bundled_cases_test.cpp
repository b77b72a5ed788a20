#include "edgecore/bundled_cases.h"

#include <gtest/gtest.h>

#include "bundled_program_generated.h"
#include "edgecore/make_tensor.h"
#include "error_text.h"
#include "pte_builder.h"
#include "toy_kernels.h"

namespace edgecore {
namespace {

// Returns a .bpte file of a program y = x * factor (factor 2) with two test cases. The first has x = [1, 3] and an
// expected y = [3, `expected`]; the second has no expected outputs.
AlignedBytes bundle(float expected, std::vector<uint8_t> dim_order = {0}, size_t bytes = 8) {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({2}), factor = pte.add_int(2), y = pte.add_tensor({2});
  pte.kernel(pte.add_operator("test::scale", "out"), {x, factor, y, y});
  pte.inputs = {x, factor};
  pte.outputs = {y};
  const std::vector<uint8_t> program = pte.finish();
  using namespace fb::bundled;
  flatbuffers::FlatBufferBuilder builder;
  const auto tensor = [&](std::vector<float> values, const std::vector<uint8_t> &order, size_t size) {
    std::vector<uint8_t> data(size);
    memcpy(data.data(), values.data(), std::min(size, values.size() * sizeof(float)));
    const std::vector<int32_t> sizes = {2};
    builder.ForceVectorAlignment(data.size(), 1, 16);
    const auto offset = CreateTensorDirect(builder, fb::bundled::ScalarType::FLOAT, &sizes, &data, &order);
    return CreateValue(builder, ValueUnion::Tensor, offset.Union());
  };
  const auto number = CreateValue(builder, ValueUnion::Int, CreateInt(builder, 3).Union());
  const std::vector<flatbuffers::Offset<fb::bundled::Value>> inputs = {tensor({1, 3}, dim_order, bytes), number};
  const std::vector<flatbuffers::Offset<fb::bundled::Value>> outputs = {tensor({3, expected}, {0}, 8)};
  const std::vector<flatbuffers::Offset<BundledMethodTestCase>> cases = {
      CreateBundledMethodTestCaseDirect(builder, &inputs, &outputs),
      CreateBundledMethodTestCaseDirect(builder, &inputs)};
  const std::vector<flatbuffers::Offset<BundledMethodTestSuite>> suites = {
      CreateBundledMethodTestSuiteDirect(builder, "forward", &cases)};
  builder.ForceVectorAlignment(program.size(), 1, 32);
  FinishBundledProgramBuffer(builder, CreateBundledProgramDirect(builder, 2, &suites, &program));
  const uint8_t *start = builder.GetBufferPointer();
  return AlignedBytes(std::vector<uint8_t>(start, start + builder.GetSize()));
}

class BundledRun : public testing::Test {
 protected:
  std::string verify(const AlignedBytes &file, size_t index = 0) {
    BundledCases cases;
    Module module;
    std::vector<edgecore::Value> outputs;
    const bool ran = cases.open(file.view(), default_limits(), error_).ok() && module.open(file.view(), error_).ok() &&
                     module.add_kernels(toy_kernels(), error_).ok() &&
                     load_bundled_input(module, cases, "forward", index, error_).ok() &&
                     module.forward({}, outputs, error_).ok();
    if (!ran) return text_of(error_);
    const Status same = verify_method_outputs(module.method(0), cases, index, {}, error_);
    EXPECT_EQ(verify_method_outputs(outputs, cases, "forward", index, {}, error_).code(), same.code());
    return same.ok() ? "" : text_of(error_);
  }
  Error error_;
};

TEST_F(BundledRun, ComparesTheOutputsWithTheExpectedOnes) {
  EXPECT_EQ(verify(bundle(9)), "");
  EXPECT_EQ(verify(bundle(8)),
            "Output 0 of method 'forward', case 0: 1 of 2 elements are wrong, max abs error 1, max rel error 0.125; "
            "the worst is [1]: 9, expected 8.");
}

TEST_F(BundledRun, SaysWhichCasesThereAre) {
  EXPECT_EQ(verify(bundle(9), 1), "Case 1 of method 'forward' has no expected outputs.");
  EXPECT_EQ(verify(bundle(9), 2), "Method 'forward' has 2 test cases; there is no case 2.");
  const AlignedBytes file = bundle(9);
  BundledCases cases;
  EXPECT_TRUE(cases.methods().empty());
  ASSERT_TRUE(cases.open(file.view(), default_limits(), error_).ok());
  EXPECT_EQ(cases.methods(), std::vector<std::string>{"forward"});
  EXPECT_EQ(cases.count("forward"), 2U);
  EXPECT_EQ(cases.count("other"), 0U);
  std::vector<edgecore::Value> outputs(2);
  EXPECT_FALSE(verify_method_outputs(outputs, cases, "forward", 0, {}, error_).ok());
  EXPECT_EQ(text_of(error_), "1 outputs are expected, but method 'forward' returned 2.");
}

TEST_F(BundledRun, RefusesDamagedCases) {
  EXPECT_EQ(verify(bundle(9, {1})),
            "A test case of the .bpte file is damaged: The dims [1] are not each of the 1 dims of the tensor once.");
  EXPECT_EQ(verify(bundle(9, {0}, 4)),
            "A test case of the .bpte file is damaged: A tensor of shape [2] needs 8 bytes; there are 4.");
}

TEST_F(BundledRun, RefusesValuesWithoutTheirTable) {
  using namespace fb::bundled;
  for (const ValueUnion type : {ValueUnion::Int, ValueUnion::Bool, ValueUnion::Double, ValueUnion::Tensor}) {
    flatbuffers::FlatBufferBuilder builder;
    const std::vector<flatbuffers::Offset<fb::bundled::Value>> inputs = {CreateValue(builder, type, 0)};
    const std::vector<flatbuffers::Offset<BundledMethodTestCase>> cases = {
        CreateBundledMethodTestCaseDirect(builder, &inputs)};
    const std::vector<flatbuffers::Offset<BundledMethodTestSuite>> suites = {
        CreateBundledMethodTestSuiteDirect(builder, "forward", &cases)};
    const std::vector<uint8_t> program = {1};
    FinishBundledProgramBuffer(builder, CreateBundledProgramDirect(builder, 2, &suites, &program));
    const uint8_t *start = builder.GetBufferPointer();
    const AlignedBytes file(std::vector<uint8_t>(start, start + builder.GetSize()));
    BundledCases bundled;
    if (!bundled.open(file.view(), default_limits(), error_).ok()) continue;
    std::vector<edgecore::Value> values;
    EXPECT_FALSE(bundled.inputs("forward", 0, values, error_).ok());
    EXPECT_EQ(text_of(error_), "A test case of the .bpte file is damaged: value 0 is missing.");
  }
}

TEST_F(BundledRun, ReadsNothingOutsideOfAnyDamagedFile) {
  const AlignedBytes file = bundle(9);
  const std::vector<uint8_t> original(file.view().begin(), file.view().end());
  for (size_t at = 0; at < original.size(); ++at) {
    for (const uint8_t flip : {uint8_t{0xff}, uint8_t{0x01}}) {
      std::vector<uint8_t> bytes = original;
      bytes[at] = static_cast<uint8_t>(bytes[at] ^ flip);
      const AlignedBytes damaged(bytes);
      BundledCases cases;
      if (!cases.open(damaged.view(), default_limits(), error_).ok()) continue;
      for (const std::string &method : cases.methods()) {
        std::vector<edgecore::Value> values;
        for (size_t i = 0; i < std::min<size_t>(cases.count(method.c_str()), 4); ++i) {
          (void)cases.inputs(method.c_str(), i, values, error_);
          (void)cases.expected_outputs(method.c_str(), i, values, error_);
        }
      }
    }
  }
}

}  // namespace
}  // namespace edgecore
