#include "edgecore/module.h"

#include <gtest/gtest.h>

#include "host/heap.h"
#include "pte_builder.h"
#include "temporary_file.h"

namespace edgecore {
namespace {

// Builds the program y = 4 x with two calls of test::scale by 2. The first call writes to the tensor `between`, which
// the caller has added to `pte`.
std::vector<uint8_t> program(PteBuilder &pte, int32_t between) {
  const int32_t x = pte.add_tensor({2}), y = pte.add_tensor({2}), two = pte.add_int(2);
  const int32_t scale = pte.add_operator("test::scale", "out");
  pte.kernel(scale, {x, two, between, between});
  pte.kernel(scale, {between, two, y, y});
  pte.inputs = {x};
  pte.outputs = {y};
  return pte.finish();
}

std::string refusal(const std::vector<uint8_t> &bytes) {
  Module module;
  HeapAllocator scratch;
  Error error;
  EXPECT_TRUE(module.open({bytes.data(), bytes.size()}, error).ok()) << std::string(error.text, error.size);
  const Status status = module.program().check_allocated(0, scratch, error);
  if (!status.ok()) EXPECT_EQ(module.load_methods({}, error).code(), EDGECORE_NOT_SUPPORTED);
  return status.ok() ? "" : std::string(error.text, error.size);
}

TEST(Module, ATensorWithoutABoundIsRefusedWhenItIsLoaded) {
  PteBuilder pte;
  TensorOptions options;
  options.dynamism = fb::TensorShapeDynamism::DYNAMIC_UNBOUND;
  const int32_t between = pte.add_tensor({2}, options);
  EXPECT_EQ(refusal(program(pte, between)),
            "Method 'forward', instruction 0 uses the tensor value 0, for which the file plans no memory because its "
            "shape has no bound: export the model with a bound on each dynamic size.");
}

TEST(Module, ATensorWithoutMemoryIsRefusedAlsoWithinAList) {
  PteBuilder pte;
  EXPECT_EQ(refusal(program(pte, pte.add_tensor({2}))),
            "Method 'forward', instruction 0 uses the tensor value 0, for which the file plans no memory.");
  PteBuilder listed;
  const int32_t list = listed.add_tensor_list({listed.add_tensor({2})});
  EXPECT_NE(refusal(program(listed, list)), "");
}

TEST(Module, PlannedViewedMovedAndEmptyTensorsAreAccepted) {
  PteBuilder planned;
  planned.arenas = {64};
  EXPECT_EQ(refusal(program(planned, planned.add_planned({2}, {1, 0}))), "");
  PteBuilder viewed;
  viewed.arenas = {64};
  const int32_t view = viewed.add_tensor({2}), base = viewed.add_planned({2}, {1, 0});
  viewed.kernel(viewed.add_operator("executorch_prim::et_view", ""), {base, viewed.add_int_list({}), view});
  EXPECT_EQ(refusal(program(viewed, view)), "");
  PteBuilder moved;
  moved.arenas = {64};
  const int32_t to = moved.add_tensor({2});
  moved.move(moved.add_planned({2}, {1, 0}), to);
  EXPECT_EQ(refusal(program(moved, to)), "");
  PteBuilder empty;
  EXPECT_EQ(refusal(program(empty, empty.add_tensor({0}))), "");
}

TEST(Module, RefusesOtherFiles) {
  const TemporaryFile other("#!/bin/sh\necho this is a script and no program for this runtime\n");
  Error error;
  Module from_path;
  EXPECT_EQ(from_path.open(other.path(), error).code(), EDGECORE_INVALID_PROGRAM);
  EXPECT_EQ(std::string(error.text, error.size).find(other.path()), 0U);  // the message begins with the path
  const uint8_t few[] = {1, 2, 3};
  Module from_bytes;
  EXPECT_EQ(from_bytes.open(few, error).code(), EDGECORE_INVALID_PROGRAM);
}

}  // namespace
}  // namespace edgecore
