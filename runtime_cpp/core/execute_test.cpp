// Tests programs that no compiler writes: aliasing values, and views and moves that could leave dangling pointers.
#include "loaded.h"

namespace edgecore {
namespace {

TensorOptions bounded() {
  TensorOptions options;
  options.dynamism = fb::TensorShapeDynamism::DYNAMIC_BOUND;
  return options;
}

// A view must not keep a pointer to the memory of an input after the run, because the caller may free that memory. Here
// the view is also the target of a move.
TEST(Execute, AMovedViewLeavesNoPointerBehind) {
  PteBuilder pte;
  pte.arenas = {128};
  const int32_t x = pte.add_tensor({2, 3});
  const int32_t planned = pte.add_planned({2, 3}, {1, 0});
  const int32_t view = pte.add_tensor({2, 3});
  const int32_t out = pte.add_tensor({2, 3});
  const int32_t two = pte.add_int(2);
  const int32_t size = pte.add_int_list({two, pte.add_int(3)});
  pte.kernel(pte.add_operator("test::scale", "out"), {planned, two, out, out});
  pte.move(planned, view);
  pte.kernel(pte.add_operator("executorch_prim::et_view", ""), {x, size, view});
  pte.inputs = {x};
  pte.outputs = {out};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> y(6);
  ASSERT_TRUE(loaded.set_floats_output(0, y));
  for (int run = 0; run < 2; ++run) {
    std::vector<float> data(6, 1.0f);  // allocated for this run and freed after it
    ASSERT_TRUE(loaded.set_floats(0, {2, 3}, data));
    ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
    EXPECT_EQ(y, std::vector<float>(6)) << "run " << run;
  }
}

TEST(Execute, AnOutputMovedFromATensorWithoutMemoryIsAnError) {
  PteBuilder pte;
  const int32_t nowhere = pte.add_tensor({4});
  const int32_t out = pte.add_tensor({4});
  pte.move(nowhere, out);
  pte.outputs = {out};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> y(4);
  ASSERT_TRUE(loaded.set_floats_output(0, y));
  EXPECT_FALSE(loaded.execute());
  EXPECT_SENTENCE(loaded, "Output 0 of method 'forward' (value 1) was moved from a tensor that has no memory.");
}

// A move must not change layout or maximum shape: the caller's memory for an output has the size of the declared shape,
// and delegates are prepared for the declared layout.
TEST(Execute, MovesKeepLayoutAndMaximumShape) {
  TensorOptions columns;
  columns.dim_order = {1, 0};
  for (int which = 0; which < 2; ++which) {
    PteBuilder pte;
    pte.arenas = {1024};
    const int32_t from = which == 0 ? pte.add_planned({64}, {1, 0}, bounded()) : pte.add_planned({2, 2}, {1, 0});
    const int32_t out = which == 0 ? pte.add_tensor({4}, bounded()) : pte.add_tensor({2, 2}, columns);
    pte.move(from, out);
    pte.outputs = {out};
    Loaded loaded(pte.finish());
    EXPECT_FALSE(loaded.load_method());
    EXPECT_SENTENCE(loaded, "dim order, or of a smaller maximum shape");
  }
}

TEST(Execute, AViewHasThreeArguments) {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({2});
  const int32_t size = pte.add_int_list({pte.add_int(2)});
  const int32_t hidden = pte.add_tensor({2});
  const int32_t view = pte.add_tensor({2});
  pte.kernel(pte.add_operator("executorch_prim::et_view", ""), {x, size, hidden, view});
  pte.inputs = {x};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> data(2);
  ASSERT_TRUE(loaded.set_floats(0, {2}, data));
  EXPECT_FALSE(loaded.execute());
  EXPECT_SENTENCE(loaded, "a view needs a tensor, a shape and an output tensor.");
}

// If et_view could change an input, the input would keep the view's shape in the next run. In that run the input has
// the caller's memory again, which may be too small for that shape.
TEST(Execute, AnInputCannotBeMadeAView) {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({8}, bounded());
  const int32_t small = pte.add_tensor({8}, bounded());
  const int32_t size = pte.add_int_list({pte.add_int(8)});
  pte.kernel(pte.add_operator("executorch_prim::et_view", ""), {x, size, small});
  pte.inputs = {x, small};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> data(8), one(1);
  ASSERT_TRUE(loaded.set_floats(0, {8}, data));
  ASSERT_TRUE(loaded.set_floats(1, {1}, one));
  EXPECT_FALSE(loaded.execute());
  EXPECT_SENTENCE(loaded, "an input cannot be made a view.");
}

// Here the input and the output of a kernel are the same tensor. resize refuses a new shape for the output, because the
// kernel may already have read the old shape through the input.
TEST(Execute, AnOutputThatIsAnInputKeepsItsShape) {
  PteBuilder pte;
  pte.arenas = {128};
  const int32_t x = pte.add_planned({8}, {1, 0}, bounded());
  pte.kernel(pte.add_operator("test::repeat", "out"), {x, pte.add_int(2), x, x});
  pte.inputs = {x};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> data(8, 1.0f);
  ASSERT_TRUE(loaded.set_floats(0, {4}, data));
  EXPECT_FALSE(loaded.execute());
  EXPECT_SENTENCE(loaded, "an output of shape [4] is another argument as well and cannot have shape [8]");
}

// A small file can cause much work: many instructions may use the same long list.
TEST(Execute, ListEntriesCountAsInstructions) {
  PteBuilder pte;
  const int32_t one = pte.add_int(1);
  const int32_t list = pte.add_int_list(std::vector<int64_t>(2000, one));
  const int32_t out = pte.add_tensor({1});
  pte.kernel(pte.add_operator("test::fill", "out"), {list, one, out, out});
  pte.outputs = {out};
  Limits limits;
  limits.instructions = 100;
  Loaded loaded(pte.finish(), limits);
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> y(1);
  ASSERT_TRUE(loaded.set_floats_output(0, y));
  EXPECT_FALSE(loaded.execute());
  EXPECT_EQ(loaded.status.code(), EDGECORE_OUT_OF_RESOURCES);
  EXPECT_SENTENCE(loaded, "has not ended after 100 instructions and list entries, the limit instructions");
}

TEST(Execute, RepeatedResultsAreBounded) {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({1});
  const int32_t first = pte.add_tensor_list(std::vector<int32_t>(100, x));
  const int32_t second = pte.add_tensor_list(std::vector<int32_t>(100, x));
  const int32_t op = pte.add_operator("test::sum", "out");
  for (int i = 0; i < 200; ++i) pte.kernel(op, {first, second});
  pte.inputs = {x};
  Limits limits;
  limits.items = 10000;
  Loaded loaded(pte.finish(), limits);
  ASSERT_TRUE(loaded.status.ok()) << text_of(loaded.error);
  EXPECT_FALSE(loaded.load_method());
  EXPECT_SENTENCE(loaded, "repeat more than 10000 list entries together (limit items)");
}

TEST(Execute, OperatorsAreBoundedBecauseEachIsLookedUp) {
  PteBuilder pte;
  for (int i = 0; i < 20000; ++i) pte.add_operator("test::none", "out");
  pte.move(pte.add_none(), 0);
  const Loaded loaded(pte.finish());
  EXPECT_FALSE(loaded.status.ok());
  EXPECT_SENTENCE(loaded, "limit items");
}

// A small file may list its metadata under the same key a million times.
TEST(Execute, MetadataAreCopiedOnce) {
  PteBuilder pte;
  pte.add_delegate("NullBackend", {'n', 'u', 'l', 'l', '1'});
  for (int i = 0; i < 50; ++i) pte.add_meta({}, std::string(100000, 'x'), std::vector<uint8_t>(32));
  pte.outputs = {pte.add_none()};
  pte.move(0, 0);
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.status.ok()) << text_of(loaded.error);
  EXPECT_LT(loaded.program_memory.used(), 400000u);
}

}  // namespace
}  // namespace edgecore
