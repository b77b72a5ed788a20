// Tests the checks of input shapes against the symbolic sizes in a file's metadata.
#include "input_metas.h"

namespace edgecore {
namespace {

TEST(InputShapes, AWrongSizeIsRefusedWithInputDimAndRange) {
  Loaded loaded(finished(three_inputs()));
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> data(200);
  const auto sentence = [&](size_t index, const std::vector<int64_t> &shape) {
    EXPECT_FALSE(loaded.set_floats(index, shape, data));
    EXPECT_EQ(loaded.status.code(), EDGECORE_INVALID_ARGUMENT);
    return text_of(loaded.error);
  };
  const std::string x = "Input 'x' (0) of method 'forward'", y = "Input 'y' (1) of method 'forward'";
  EXPECT_EQ(sentence(0, {5, 2}), x + ": dim 1 must be 3, got 2 (shape [5, 2]).");
  EXPECT_EQ(sentence(0, {3, 3}), x + ": dim 0 ('b') must be 4 to 8, got 3 (shape [3, 3]).");
  EXPECT_EQ(sentence(0, {12, 3}), x + ": dim 0 ('b') must be 4 to 8, got 12 (shape [12, 3]).");
  EXPECT_EQ(sentence(0, {5}), x + " must have 2 dims (at most [8, 3]), got shape [5].");
  EXPECT_EQ(sentence(1, {12, 3}), y + ": dim 0 ('8*s') must be 8 to 32 and a multiple of 8, got 12 (shape [12, 3]).");
  EXPECT_EQ(sentence(1, {INT64_MIN, 3}),
            y + ": dim 0 ('8*s') must be 8 to 32 and a multiple of 8, got -9223372036854775808 (shape "
                "[-9223372036854775808, 3]).");
  EXPECT_TRUE(loaded.set_floats(1, {16, 3}, data));
}

TEST(InputShapes, AMultipleMayHaveAnOffset) {
  PteBuilder pte = three_inputs();
  pte.input_metas[1].dims[0] = {"8*s - 1", 7, 1, 8, -1};
  Loaded loaded(finished(std::move(pte)));
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> data(200);
  EXPECT_TRUE(loaded.set_floats(1, {15, 3}, data)) << text_of(loaded.error);
  EXPECT_FALSE(loaded.set_floats(1, {16, 3}, data));
  EXPECT_SENTENCE(loaded, "dim 0 ('8*s - 1') must be 7 to 31 and 7 more than a multiple of 8, got 16");
}

TEST(InputShapes, DimsOfOneSymbolMustAgree) {
  Loaded loaded(finished(three_inputs()));
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> data(200), out(24);
  ASSERT_TRUE(loaded.set_floats_output(0, out));
  ASSERT_TRUE(loaded.set_floats(0, {5, 3}, data));
  ASSERT_TRUE(loaded.set_floats(1, {8, 3}, data));
  ASSERT_TRUE(loaded.set_floats(2, {7}, data));
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(loaded.execute());
    EXPECT_EQ(loaded.status.code(), EDGECORE_INVALID_ARGUMENT);
    EXPECT_EQ(
        text_of(loaded.error),
        "Input 'z' (2) of method 'forward': dim 0 ('b + 1') must be 6, because dim 0 ('b') of input 'x' is 5; got "
        "7.");
  }
  ASSERT_TRUE(loaded.set_floats(2, {6}, data));
  EXPECT_TRUE(loaded.execute()) << text_of(loaded.error);
  ASSERT_TRUE(loaded.set_floats(0, {8, 3}, data));
  EXPECT_FALSE(loaded.execute());
  EXPECT_SENTENCE(loaded, "dim 0 ('b + 1') must be 9, because dim 0 ('b') of input 'x' is 8; got 6.");
}

TEST(InputShapes, ShapesThatADelegateRefusesAreAnErrorOfTheInputs) {
  PteBuilder pte;
  NullBlob blob;
  blob.inputs = 2;
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&blob);
  const int32_t delegate = pte.add_delegate("NullBackend", std::vector<uint8_t>(bytes, bytes + sizeof(blob)));
  const int32_t x = pte.add_tensor({4}, bounded()), y = pte.add_tensor({4}, bounded());
  const int32_t out = pte.add_tensor({4}, bounded());
  pte.delegate(delegate, {x, y, out});
  pte.inputs = {x, y};
  pte.outputs = {out};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  std::vector<float> data(4), result(4);
  ASSERT_TRUE(loaded.set_floats_output(0, result));
  ASSERT_TRUE(loaded.set_floats(0, {3}, data));
  ASSERT_TRUE(loaded.set_floats(1, {2}, data));
  EXPECT_FALSE(loaded.execute());
  EXPECT_EQ(loaded.status.code(), EDGECORE_INVALID_ARGUMENT);
  EXPECT_SENTENCE(
      loaded, "backend 'NullBackend': argument 1 has another batch. The shapes of the inputs do not fit the program");
  ASSERT_TRUE(loaded.set_floats(1, {3}, data));
  EXPECT_TRUE(loaded.execute()) << text_of(loaded.error);
}

}  // namespace
}  // namespace edgecore
