// Tests finding the program inside a .bpte file, which holds a program together with test cases.
#include "edgecore/bundled.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "edgecore/data.h"
#include "file_builder.h"
#include "loaded.h"

namespace edgecore {
namespace {

TEST(BundledProgram, ContainsAProgram) {
  PteBuilder pte;
  const std::vector<uint8_t> program = pte.finish();
  const std::vector<uint8_t> file = make_bpte(program);
  Error error;
  const Result<Bytes> inner = bundled_program({file.data(), file.size()}, Limits(), error);
  ASSERT_TRUE(inner.ok()) << std::string(error.text, error.size);
  ASSERT_EQ((*inner).size(), program.size());
  EXPECT_EQ(memcmp((*inner).data(), program.data(), program.size()), 0);
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(bundled_program({file.data(), size}, Limits(), error).ok()) << size;
  }
}

TEST(BundledProgram, IsNotReadFromOtherFiles) {
  Error error;
  const std::vector<uint8_t> empty = make_bpte({});
  EXPECT_FALSE(bundled_program({empty.data(), empty.size()}, Limits(), error).ok());
  EXPECT_EQ(std::string(error.text, error.size), "This .bpte file holds no program.");
  std::vector<uint8_t> newer = make_bpte({1});
  newer[7] = '9';
  EXPECT_FALSE(bundled_program({newer.data(), newer.size()}, Limits(), error).ok());
  EXPECT_NE(std::string(error.text, error.size).find("identifier BP08"), std::string::npos);
}

}  // namespace
}  // namespace edgecore
