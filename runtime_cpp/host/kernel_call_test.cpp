#include "edgecore/kernel_call.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "edgecore/kernel.hpp"
#include "edgecore/kernels.h"
#include "error_text.h"

namespace {

using edgecore::kernel::Context;
using edgecore::kernel::Scalar;
using edgecore::kernel::Tensor;
using edgecore::kernel::TensorList;

// out = x * factor, where a missing factor is 2.
void times(Context &context, Tensor x, std::optional<double> factor, Tensor out) {
  if (!x.is<float>() || !out.is<float>()) {
    return context.fail(EDGECORE_INVALID_TYPE, "x has type %d, not float32", x.scalar_type());
  }
  if (!x.is_contiguous()) throw std::runtime_error("x is not contiguous");
  if (!context.resize(out, x.shape())) return;
  auto *copy = static_cast<float *>(context.scratch(static_cast<uint64_t>(x.count()) * sizeof(float)));
  if (copy == nullptr) return;
  context.parallel_for(x.count(), 2, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) copy[i] = x.data<float>()[i] * static_cast<float>(factor.value_or(2));
  });
  std::copy(copy, copy + x.count(), out.data<float>());
}

// out[0] = the sum of all arguments.
int32_t sum(TensorList tensors, int64_t number, bool flag, edgecore::StringView text, Scalar scalar,
            edgecore::Span<const int64_t> ints, edgecore::Span<const double> doubles,
            edgecore::Span<const uint8_t> bools, std::optional<Tensor> extra, Tensor out) {
  double total = static_cast<double>(number) + (flag ? 10 : 0) + static_cast<double>(text.size()) + scalar.to_double();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors.has(i)) total += static_cast<double>(tensors[i].data<float>()[0]);
  }
  for (const int64_t value : ints) total += static_cast<double>(value);
  for (const double value : doubles) total += value;
  for (const uint8_t value : bools) total += value;
  if (extra) total += 1000;
  out.data<double>()[0] = total;
  return EDGECORE_OK;
}

// Makes each tensor of the list [1].
void shrink(Context &context, TensorList out) noexcept {
  for (size_t i = 0; i < out.size(); ++i) {
    if (out.has(i) && !context.resize(out[i], {1})) return;
  }
}

}  // namespace

EDGECORE_LIBRARY(test_ops, "shrink.out(*, Tensor(a!)[] out) -> ()", shrink);
EDGECORE_LIBRARY(test_ops, "times.out(Tensor x, float? factor=None, *, Tensor(a!) out) -> Tensor(a!)", times);
EDGECORE_LIBRARY_FOR(test_ops, "times.by_name", times, edgecore::kernel::for_types<float>());
EDGECORE_LIBRARY(test_ops,
                 "sum(Tensor?[] tensors, SymInt number, bool flag=False, str text=\"a, (b)\", Scalar scalar=1, int[2] "
                 "ints=[1, 2], float[] doubles=[], bool[] bools, Tensor? extra, *, Tensor(a!) out) -> ()",
                 sum);
EDGECORE_KERNEL_TABLE(test_kernels, "test-kernels", "1")

namespace edgecore {
namespace {

std::string problem(StringView op, std::vector<Value> args) {
  Error error;
  return call_kernel(*test_kernels(), op, args, error).ok() ? "" : text_of(error);
}

TEST(CallKernel, CallsATypedFunction) {
  std::vector<Value> args = {edgecore::make_tensor({2, 2}, {1.0F, 2.0F, 3.0F, 4.0F}), 3.0, edgecore::empty({4, 2})};
  Error error;
  ASSERT_TRUE(call_kernel(*test_kernels(), "test_ops::times.out", args, error).ok()) << text_of(error);
  EXPECT_TRUE(check_close(args[2].tensor(), edgecore::make_tensor({2, 2}, {3.0F, 6.0F, 9.0F, 12.0F}), {}, error).ok())
      << text_of(error);
  args[1] = Value();  // None
  ASSERT_TRUE(call_kernel(*test_kernels(), "test_ops::times.by_name", args, error).ok()) << text_of(error);
  EXPECT_TRUE(check_close(args[2].tensor(), edgecore::make_tensor({2, 2}, {2.0F, 4.0F, 6.0F, 8.0F}), {}, error).ok());
  args[1] = 4;  // an int is accepted as a float
  ASSERT_TRUE(call_kernel(*test_kernels(), "test_ops::times.out", args, error).ok()) << text_of(error);
}

TEST(CallKernel, PassesArgumentsOfEveryKind) {
  std::vector<Value> args = {std::vector<edgecore::Tensor>{edgecore::full({1}, 0.5F), edgecore::Tensor()},
                             1,
                             true,
                             "four",
                             2.5,
                             std::vector<int64_t>{100, 200},
                             std::vector<double>{0.25},
                             std::vector<bool>{true, false},
                             Value(),
                             edgecore::empty({1}, ScalarType::kFloat64)};
  Error error;
  ASSERT_TRUE(call_kernel(*test_kernels(), "test_ops::sum", args, error).ok()) << text_of(error);
  const double expected = 0.5 + 1 + 10 + 4 + 2.5 + 300 + 0.25 + 1;
  EXPECT_EQ(args[9].tensor().values<double>()[0], expected);
  args[8] = edgecore::ones({1});
  ASSERT_TRUE(call_kernel(*test_kernels(), "test_ops::sum", args, error).ok());
  EXPECT_EQ(args[9].tensor().values<double>()[0], expected + 1000);
}

TEST(CallKernel, CallsTheRuntimesOwnKernels) {
  std::vector<Value> args = {edgecore::ones({2}), edgecore::ones({2}), 3, edgecore::empty({2})};
  Error error;
  ASSERT_TRUE(call_kernel(*edgecore_kernels_library(), "aten::add.out", args, error).ok()) << text_of(error);
  EXPECT_TRUE(check_close(args[3].tensor(), edgecore::full({2}, 4), {}, error).ok()) << text_of(error);
}

TEST(CallKernel, ReturnsResultsThatAreNoTensors) {
  std::vector<Value> args = {edgecore::ones({2, 3}), 1, Value()};
  Error error;
  ASSERT_TRUE(call_kernel(*edgecore_kernels_library(), "aten::sym_size.int", args, error).ok()) << text_of(error);
  ASSERT_TRUE(args[2].is_int());
  EXPECT_EQ(*args[2].to_int(error), 3);
  EXPECT_EQ(*args[1].to_int(error), 1);
}

TEST(CallKernel, GivesTensorsOfAListTheirNewShapes) {
  std::vector<Value> args = {std::vector<edgecore::Tensor>{edgecore::ones({2}), {}, edgecore::ones({3})}};
  Error error;
  ASSERT_TRUE(call_kernel(*test_kernels(), "test_ops::shrink.out", args, error).ok()) << text_of(error);
  ASSERT_EQ(args[0].tensors()->size(), 3U);
  EXPECT_EQ(args[0].tensors()->at(0).shape(), std::vector<int64_t>{1});
  EXPECT_TRUE(args[0].tensors()->at(1).empty());
  EXPECT_EQ(args[0].tensors()->at(2).shape(), std::vector<int64_t>{1});
}

TEST(CallKernel, SaysWhatIsWrongWithACall) {
  const edgecore::Tensor x = edgecore::ones({2}), out = edgecore::ones({2});
  EXPECT_EQ(problem("test_ops::minus", {}), "Package 'test-kernels' has no kernel test_ops::minus.");
  EXPECT_EQ(problem("test_ops::times.out", {x, 1.0}), "the kernel has 3 parameters, but 2 arguments were passed");
  EXPECT_EQ(problem("test_ops::times.out", {x, true, out}), "argument 1 must be a float");
  EXPECT_EQ(problem("test_ops::times.out", {1, 1.0, out}), "argument 0 must be a tensor");
  EXPECT_EQ(problem("test_ops::times.out", {edgecore::ones({2}, ScalarType::kInt32), 1.0, out}),
            "x has type 3, not float32");
  EXPECT_EQ(problem("test_ops::times.out", {edgecore::ones({2, 2}).permute({1, 0}), 1.0, out}), "x is not contiguous");
  EXPECT_EQ(problem("test_ops::times.out", {x, 1.0, edgecore::ones({1})}),
            "A tensor of shape [2] needs 8 bytes; the memory has 4.");
  EXPECT_EQ(problem("test_ops::times.out", {x, 1.0, edgecore::Tensor()}),
            "Argument 2 of test_ops::times.out: The tensor is empty.");
  EXPECT_EQ(problem("test_ops::shrink.out", {std::vector<edgecore::Tensor>{out, out.view({3})}}),
            "Argument 0 of test_ops::shrink.out: A tensor of shape [2] cannot be viewed as [3].");
  const float constant[2] = {};
  EXPECT_EQ(problem("test_ops::times.out", {x, 1.0, from_blob(constant, {2})}),
            "A read-only tensor may not be written.");
}

// EDGECORE_LIBRARY does not compile if `matches` is false.
TEST(Schemas, AreComparedWithTheParameters) {
  using kernel::matches;
  static_assert(matches<&times>("f"), "a name alone");
  static_assert(matches<&times>("f(Tensor(a!) x, float? y, *, Tensor out) -> ()"), "");
  static_assert(!matches<&times>("f(Tensor x, float y, *, Tensor(a!) out) -> Tensor(a!)"), "not optional");
  static_assert(!matches<&times>("f(Tensor x, int? y, *, Tensor(a!) out) -> Tensor(a!)"), "another kind");
  static_assert(!matches<&times>("f(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"), "too few");
  static_assert(!matches<&times>("f(Tensor[] x, float? y, *, Tensor(a!) out) -> Tensor(a!)"), "a list");
  static_assert(!matches<&times>("f(Tensor x, Generator? y, *, Tensor(a!) out) -> Tensor(a!)"), "unknown");
  EXPECT_EQ(test_kernels()->kernel_count, 4U);
  EXPECT_EQ(test_kernels()->kernels[2].dtypes, uint64_t{1} << ScalarType::kFloat32);
}

}  // namespace
}  // namespace edgecore
