#include "host/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "edgecore/module.h"

namespace edgecore {
namespace {

// A file of the given content, removed at the end of the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string &content) {
    const int descriptor = mkstemp(path_);
    EXPECT_EQ(write(descriptor, content.data(), content.size()), static_cast<ssize_t>(content.size()));
    close(descriptor);
  }
  ~TemporaryFile() { unlink(path_); }
  const char *path() const { return path_; }

 private:
  char path_[32] = "/tmp/edgecore_file_XXXXXX";
};

TEST(File, MapsWithAReadableTail) {
  const std::string content(static_cast<size_t>(sysconf(_SC_PAGESIZE)), 'x');  // ends where a page ends
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

TEST(Module, RefusesOtherFiles) {
  const TemporaryFile other("#!/bin/sh\necho this is a script and no program for this runtime\n");
  Error error;
  Module from_path;
  EXPECT_EQ(from_path.open(other.path(), error).code(), EDGECORE_INVALID_PROGRAM);
  EXPECT_EQ(std::string(error.text, error.size).find(other.path()), 0U);  // the sentence begins with the file
  const uint8_t few[] = {1, 2, 3};
  Module from_bytes;
  EXPECT_EQ(from_bytes.open(few, error).code(), EDGECORE_INVALID_PROGRAM);
}

}  // namespace
}  // namespace edgecore
