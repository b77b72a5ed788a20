// Tests reading names and symbolic sizes of inputs and outputs from metadata (edgecore.meta.v1), valid and damaged.
#include "input_metas.h"

namespace edgecore {
namespace {

TEST(MethodInfo, NamesInputsOutputsAndDims) {
  Loaded loaded(finished(three_inputs()));
  ASSERT_TRUE(loaded.status.ok()) << text_of(loaded.error);
  const MethodInfo info = loaded.program->method(0);
  EXPECT_TRUE(info.input(1).name == "y");
  EXPECT_TRUE(info.output(0).name == "logits");
  const DimInfo rows = info.input_dim(1, 0), columns = info.input_dim(1, 1);
  EXPECT_TRUE(rows.name == "8*s");
  EXPECT_EQ(rows.min, 8);
  EXPECT_EQ(rows.max, 32);
  EXPECT_EQ(rows.multiple, 8);
  EXPECT_TRUE(columns.name.empty());
  EXPECT_EQ(columns.min, 3);
  EXPECT_EQ(columns.max, 3);
  EXPECT_TRUE(info.output_dim(0, 0).name == "b");
  const Result<size_t> index = info.find_input("z", loaded.error);
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(*index, 2u);
  EXPECT_EQ(info.find_input("w", loaded.error).status().code(), EDGECORE_NOT_FOUND);
  EXPECT_EQ(text_of(loaded.error), "Method 'forward' has no input 'w'; it takes 'x', 'y', 'z'.");
}

TEST(MethodInfo, AFileOfAnotherToolchainHasItsUpperBoundsAlone) {
  Loaded loaded(three_inputs().finish());
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  const MethodInfo info = loaded.program->method(0);
  EXPECT_TRUE(info.input(0).name.empty());
  EXPECT_EQ(info.input_dim(0, 0).min, 0);
  EXPECT_EQ(info.input_dim(0, 0).max, 8);
  EXPECT_FALSE(info.find_input("x", loaded.error).ok());
  EXPECT_SENTENCE(loaded, "the file holds no names of inputs");
  std::vector<float> x(27), y(99), z(9), out(24);
  EXPECT_TRUE(loaded.set_floats(0, {1, 2}, x));
  EXPECT_TRUE(loaded.set_floats(1, {5, 3}, y));
  EXPECT_TRUE(loaded.set_floats(2, {9}, z));
  ASSERT_TRUE(loaded.set_floats_output(0, out));
  EXPECT_TRUE(loaded.execute()) << text_of(loaded.error);
  EXPECT_FALSE(loaded.set_floats(0, {9, 3}, x));
  EXPECT_SENTENCE(loaded, "Input 0 of method 'forward': dim 0 must be at most 8, got 9 (shape [9, 3]).");
}

TEST(MethodInfo, MetadataThatDoNotFitTheProgramAreDamage) {
  const auto refused = [](void (*change)(PteBuilder &)) {
    PteBuilder pte = three_inputs();
    change(pte);
    Loaded loaded(finished(std::move(pte)));
    EXPECT_EQ(loaded.status.code(), EDGECORE_INVALID_PROGRAM);
    EXPECT_SENTENCE(loaded, "Metadata of method 'forward': its inputs, outputs or their dims are not those of");
  };
  refused([](PteBuilder &pte) { pte.input_metas.pop_back(); });
  refused([](PteBuilder &pte) { pte.output_metas.push_back({"more"}); });
  refused([](PteBuilder &pte) { pte.input_metas[0].dims.pop_back(); });
  refused([](PteBuilder &pte) { pte.input_metas[0].dims[0].min = 9; });
  refused([](PteBuilder &pte) { pte.input_metas[0].dims[0].min = -1; });
  refused([](PteBuilder &pte) { pte.input_metas[0].dims[0].multiple = 0; });
  refused([](PteBuilder &pte) { pte.input_metas[0].dims[0].multiple = INT64_MIN; });
  refused([](PteBuilder &pte) { pte.input_metas[0].dims[0].offset = INT64_MIN; });
  refused([](PteBuilder &pte) { pte.input_metas[0].dims[0].symbol = 1; });  // the first symbol must be 0
  refused([](PteBuilder &pte) { pte.input_metas[0].dims[0].symbol = -2; });
  refused([](PteBuilder &pte) {  // an output that is not a tensor
    pte.outputs = {pte.add_int(1)};
  });
}

}  // namespace
}  // namespace edgecore
