#include "byte_table.h"

#include <gtest/gtest.h>

namespace edgecore::llm {
namespace {

TEST(ByteTable, FindsEveryKeyAndNoOther) {
  ByteTable table;
  EXPECT_EQ(table.find("a"), -1);
  for (int32_t i = 0; i < 5000; ++i) {
    const std::string key = "key" + std::to_string(i);
    table.add({key.data(), key.size()}, i);
  }
  table.add("key7", 70);
  table.add("", 3);
  table.add({"a\0b", 3}, 4);
  EXPECT_EQ(table.size(), 5002u);
  EXPECT_EQ(table.find("key4999"), 4999);
  EXPECT_EQ(table.find("key7"), 70);
  EXPECT_EQ(table.find(""), 3);
  EXPECT_EQ(table.find({"a\0b", 3}), 4);
  EXPECT_EQ(table.find({"a\0c", 3}), -1);
  EXPECT_EQ(table.find("key5000"), -1);
}

TEST(PairTable, FindsEveryPairAndNoOther) {
  PairTable table;
  EXPECT_EQ(table.find(0, 0).token, -1);
  for (int32_t i = 0; i < 3000; ++i) table.add(i, 2 * i, {static_cast<double>(i), i + 1});
  table.add(5, 10, {0.5, 9});
  EXPECT_EQ(table.find(2999, 5998).token, 3000);
  EXPECT_EQ(table.find(5, 10).order, 0.5);
  EXPECT_EQ(table.find(10, 5).token, -1);
}

}  // namespace
}  // namespace edgecore::llm
