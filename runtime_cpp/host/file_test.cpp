#include "host/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "temporary_file.h"

namespace edgecore {
namespace {

TEST(File, MapsWithAReadableTail) {
  const std::string content(static_cast<size_t>(sysconf(_SC_PAGESIZE)), 'x');  // its end is the end of a page
  const TemporaryFile source(content);
  File file;
  Error error;
  ASSERT_TRUE(file.map(source.path(), error).ok());
  ASSERT_EQ(file.bytes().size(), content.size());
  EXPECT_EQ(file.bytes()[content.size() - 1], 'x');
  for (size_t i = 0; i < File::kTail; ++i) EXPECT_EQ(file.bytes().data()[content.size() + i], 0);
}

TEST(File, CopiesAligned) {
  const uint8_t content[] = {1, 2, 3};
  File file;
  Error error;
  ASSERT_TRUE(file.copy(content, error).ok());
  EXPECT_EQ(file.bytes().size(), 3u);
  EXPECT_EQ(file.bytes()[2], 3);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file.bytes().data()) % 128, 0u);
  EXPECT_EQ(file.bytes().data()[3 + File::kTail - 1], 0);
}

TEST(File, SaysWhatIsWrong) {
  Error error;
  File missing;
  EXPECT_EQ(missing.map("/no/such/file.pte", error).code(), EDGECORE_ACCESS_FAILED);
  EXPECT_NE(std::string(error.text, error.size).find("/no/such/file.pte"), std::string::npos);
  File folder;
  EXPECT_EQ(folder.map("/tmp", error).code(), EDGECORE_INVALID_PROGRAM);
  const TemporaryFile nothing("");
  File empty;
  EXPECT_EQ(empty.map(nothing.path(), error).code(), EDGECORE_INVALID_PROGRAM);
}

}  // namespace
}  // namespace edgecore
