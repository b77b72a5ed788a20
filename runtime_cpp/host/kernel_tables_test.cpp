#include "host/kernel_tables.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "edgecore/make_tensor.h"
#include "error_text.h"
#include "pte_builder.h"
#include "toy_kernels.h"

namespace edgecore {
namespace {

constexpr uint64_t kFloatOnly = uint64_t{1} << ScalarType::kFloat32;

// Writes 100 to its float32 output. Returns NOT_SUPPORTED for a factor from 10 to 99, and fails for a larger factor.
int32_t EDGECORE_CALL scale_by_100(const edgecore_call *call) {
  const int64_t factor = call->args[1].as.i;
  if (factor > 99) return call->host->fail(call->error, EDGECORE_INVALID_ARGUMENT, {"too large", 9});
  if (factor > 9) return call->host->fail(call->error, EDGECORE_NOT_SUPPORTED, {"not here", 8});
  const edgecore_dl_tensor &out = call->args[2].as.tensor->dl;
  for (int64_t i = 0; i < out.shape[0]; ++i) static_cast<float *>(out.data)[i] = 100;
  return EDGECORE_OK;
}

edgecore_kernel_library library_of(const edgecore_kernel &kernel) {
  return {header_of<edgecore_kernel_library>(), {"replacing", 9}, {"1", 1}, &kernel, 1, sizeof kernel, 0};
}

edgecore_kernel scale_kernel(uint64_t dtypes) {
  return {header_of<edgecore_kernel>(), {"test::scale", 11}, {"out", 3}, dtypes, scale_by_100};
}

class ReplacedKernels : public testing::Test {
 protected:
  void load(uint64_t dtypes) {
    PteBuilder pte;
    const int32_t x = pte.add_tensor({2}), factor = pte.add_int(2), y = pte.add_tensor({2});
    pte.kernel(pte.add_operator("test::scale", "out"), {x, factor, y, y});
    pte.inputs = {x, factor};
    pte.outputs = {y};
    const std::vector<uint8_t> bytes = pte.finish();
    ASSERT_TRUE(module_.open(Bytes(bytes.data(), bytes.size()), error_).ok()) << text_of(error_);
    kernel_ = scale_kernel(dtypes);
    library_ = library_of(kernel_);
    ASSERT_TRUE(module_.add_kernels(toy_kernels(), error_).ok());
    ASSERT_TRUE(module_.add_kernels(&library_, KernelUse::kReplace, error_).ok());
    EXPECT_TRUE(module_.missing_operators().empty());
  }
  float first(int64_t factor) {
    std::vector<Value> outputs;
    if (!module_.forward({ones({2}), factor}, outputs, error_).ok()) return -1;
    const Tensor y = outputs[0].tensor();
    return y.values<float>()[0];
  }

  edgecore_kernel kernel_;
  edgecore_kernel_library library_;
  Module module_;
  Error error_;
};

TEST_F(ReplacedKernels, RunBeforeTheKernelsThatWereThere) {
  load(kFloatOnly);
  EXPECT_EQ(first(2), 100.0F);
}

TEST_F(ReplacedKernels, FallBackIfTheyDoNotSupportTheCall) {
  load(kFloatOnly);
  EXPECT_EQ(first(10), 10.0F);
  EXPECT_EQ(first(2), 100.0F);
}

TEST_F(ReplacedKernels, FallBackForOtherDtypes) {
  load(uint64_t{1} << ScalarType::kFloat64);
  EXPECT_EQ(first(2), 2.0F);
}

TEST_F(ReplacedKernels, DoNotFallBackIfTheyFail) {
  load(kFloatOnly);
  EXPECT_EQ(first(100), -1.0F);
  EXPECT_NE(text_of(error_).find("too large"), std::string::npos);
}

TEST(KernelTables, LeaveEachOperatorInOneTable) {
  const edgecore_kernel first = scale_kernel(kFloatOnly), second = scale_kernel(0);
  const edgecore_kernel_library one = library_of(first), two = library_of(second);
  KernelTables tables(toy_kernels());
  Error error;
  EXPECT_EQ((*tables.libraries(error)).size(), 1U);
  tables.add(&one, KernelUse::kReplace);
  tables.add(&two, KernelUse::kReplace);
  tables.add(&two, KernelUse::kReplace);
  const auto libraries = tables.libraries(error);
  ASSERT_TRUE(libraries.ok());
  size_t count = 0;
  for (const edgecore_kernel_library *library : *libraries) {
    for (uint64_t i = 0; i < library->kernel_count; ++i) {
      const edgecore_kernel &kernel = library->kernels[i];
      count += StringView(kernel.name) == "test::scale" && StringView(kernel.overload) == "out" ? 1 : 0;
    }
  }
  EXPECT_EQ(count, 1U);
  EXPECT_EQ((*libraries).size(), 3U);
  EXPECT_TRUE(tables.has_kernel({"test::scale", "out"}));
  EXPECT_FALSE(tables.has_kernel({"test::scale", ""}));
}

// Replaces the kernel of kMaxReplaced + 1 operators, one more than a process allows. Returns true if the last
// replacement is refused.
bool too_many_are_refused() {
  for (uint64_t i = 0; i <= KernelTables::kMaxReplaced; ++i) {
    const edgecore_kernel kernel = scale_kernel(i + 1000);  // the dtypes differ, so each kernel needs a separate chain
    const edgecore_kernel_library library = library_of(kernel);
    KernelTables tables(toy_kernels());
    tables.add(&library, KernelUse::kReplace);
    Error error;
    const auto libraries = tables.libraries(error);
    if (libraries.ok()) continue;
    return libraries.status().code() == EDGECORE_OUT_OF_RESOURCES &&
           text_of(error) == "More than 256 operators have replaced kernels in this process.";
  }
  return false;
}

TEST(KernelTables, SayIfTooManyOperatorsAreReplaced) {
  // Run in a child process, because chains are never freed and other tests need some chains.
  EXPECT_EXIT(exit(too_many_are_refused() ? 0 : 1), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace edgecore
