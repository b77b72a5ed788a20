// Temporary files for tests.
#ifndef EDGECORE_TESTS_TEMPORARY_FILE_H_
#define EDGECORE_TESTS_TEMPORARY_FILE_H_

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace edgecore {

// A file with this content; it is removed when the object is destroyed.
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

}  // namespace edgecore

#endif  // EDGECORE_TESTS_TEMPORARY_FILE_H_
