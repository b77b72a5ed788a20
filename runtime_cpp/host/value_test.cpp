#include "edgecore/value.h"

#include <gtest/gtest.h>

#include "error_text.h"

namespace edgecore {
namespace {

TEST(Value, ConvertsFromEveryType) {
  EXPECT_TRUE(Value().is_none());
  EXPECT_TRUE(Value(3).is_int());
  EXPECT_TRUE(Value(uint8_t{3}).is_int());
  EXPECT_TRUE(Value(0.5F).is_double());
  EXPECT_TRUE(Value(true).is_bool());
  EXPECT_TRUE(Value(Tensor(6, {1})).is_tensor());
  EXPECT_EQ(*Value("text").string(), "text");
  EXPECT_EQ(Value(std::vector<int64_t>{1, 2}).ints()->size(), 2U);
  EXPECT_EQ(Value(std::vector<double>{1, 2}).doubles()->at(1), 2.0);
  EXPECT_EQ(Value(std::vector<bool>{true}).tag(), EDGECORE_TAG_BOOL_LIST);
  EXPECT_EQ(Value(std::vector<Tensor>(3)).tensors()->size(), 3U);
  EXPECT_EQ(Value(3).string(), nullptr);
}

TEST(Value, GivesNumbersAndSaysWhichKindItHasInstead) {
  Error error;
  EXPECT_EQ(*Value(3).to_int(error), 3);
  EXPECT_EQ(*Value(3).to_double(error), 3.0);
  EXPECT_TRUE(*Value(true).to_bool(error));
  EXPECT_EQ(Value(0.5).to_int(error).status().code(), EDGECORE_INVALID_TYPE);
  EXPECT_EQ(text_of(error), "The value is a double, not an int.");
  EXPECT_FALSE(Value("x").to_double(error).ok());
  EXPECT_EQ(text_of(error), "The value is a string, not a double.");
  EXPECT_FALSE(Value(1).to_bool(error).ok());
  EXPECT_EQ(text_of(error), "The value is an int, not a bool.");
  EXPECT_FALSE(Value().tensor().check(error).ok());
  EXPECT_EQ(text_of(error), "The value is None, not a tensor.");
}

TEST(Value, CopiesValuesOfTheCInterface) {
  edgecore_value value = {EDGECORE_TAG_DOUBLE, 0, {}};
  value.as.d = 1.5;
  Error error;
  EXPECT_EQ(*Value::copy_of(value).to_double(error), 1.5);
  const int64_t ints[] = {4, 5};
  edgecore_list list = {};
  list.items.ints = ints;
  list.count = 2;
  value.tag = EDGECORE_TAG_INT_LIST;
  value.as.list = &list;
  EXPECT_EQ(*Value::copy_of(value).ints(), (std::vector<int64_t>{4, 5}));
  edgecore_tensor *const tensors[] = {nullptr};
  list.items.tensors = tensors;
  list.count = 1;
  value.tag = EDGECORE_TAG_TENSOR_LIST;
  const Value copied = Value::copy_of(value);
  ASSERT_EQ(copied.tensors()->size(), 1U);
  EXPECT_TRUE(copied.tensors()->front().empty());
}

}  // namespace
}  // namespace edgecore
