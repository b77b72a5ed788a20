// Compiles the headers, and the assertions of their layout, as C++17.
#include <gtest/gtest.h>

#include "abi_layout.h"

extern "C" int edgecore_abi_test_has(void);

TEST(Abi, AMemberExistsIfTheSizeCoversIt) {
  EXPECT_EQ(edgecore_abi_test_has(), 1);
  edgecore_backend table = {};
  table.header.struct_size = offsetof(edgecore_backend, set_option);
  EXPECT_TRUE(EDGECORE_HAS(&table, import_state));
  EXPECT_FALSE(EDGECORE_HAS(&table, set_option));
}
