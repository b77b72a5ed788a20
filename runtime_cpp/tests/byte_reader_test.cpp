// Tests edgecore/byte_reader.hpp: readers of blobs and of compatibility strings.
#include "edgecore/byte_reader.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "failure_of.h"

namespace {

using namespace edgecore::backend;

// Reads a blob with the C++ ByteReader. tests/plugin/test_byte_reader.py reads the same blob with the Python class
// ByteReader, which must accept the same format. The blob is copied to an allocation of its exact size, so that a
// sanitizer detects reads past its end.
std::string read_blob(const std::string &blob) {
  const std::vector<uint8_t> exact(blob.begin(), blob.end());
  try {
    ByteReader reader({exact.data(), exact.size()});
    reader.header("ACME", 2, "edgecore-acme");
    const uint32_t number = reader.u32();
    std::string text(reader.text());
    reader.align(4);
    const uint8_t one = reader.number<uint8_t>();
    const uint16_t two = reader.number<uint16_t>();
    const uint64_t three = reader.number<uint64_t>();
    reader.finish();
    return text + " " + std::to_string(number) + " " + std::to_string(one + two + three);
  } catch (const Failure &failure) {
    EXPECT_EQ(failure.code, EDGECORE_DELEGATE_INVALID_COMPATIBILITY);
    return failure.text;
  }
}

TEST(ByteReader, ReadsWhatIsThereAndRefusesTheRest) {
  using namespace std::string_literals;
  const std::string blob = "ACME\2\0\0\0\1\2\3\4\3\0\0\0\xc3\xa9!\0\1\2\0\3\0\0\0\0\0\0\0"s;
  EXPECT_EQ(read_blob(blob), "\xc3\xa9! 67305985 6");
  for (size_t size = 0; size < blob.size(); ++size) {
    const char *part = size < 4 ? "not written by edgecore-acme" : "end too early";
    EXPECT_NE(read_blob(blob.substr(0, size)).find(part), std::string::npos) << size;
  }
  EXPECT_EQ(read_blob(blob + "!"), "the blob is damaged: 1 bytes follow its end");
  EXPECT_NE(read_blob("ACME\3\0\0\0"s).find("version 3 and this edgecore-acme reads version 2"), std::string::npos);
  for (size_t at = 0; at < blob.size(); ++at) {
    std::string damaged = blob;
    damaged[at] = '\xff';
    (void)read_blob(damaged);
  }
  const uint8_t counts[] = {2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(ByteReader({counts, 12}).count(4), 2u);
  EXPECT_THROW(ByteReader({counts, 11}).count(4), Failure);
}

TEST(CheckFormat, TakesTheFormatAloneOrWithWordsBehindIt) {
  EXPECT_EQ(check_format("acme-blob 1", "acme-blob 1", "edgecore-acme"), EDGECORE_COMPATIBLE);
  EXPECT_EQ(check_format("acme-blob 1 board-7", "acme-blob 1", "edgecore-acme"), EDGECORE_COMPATIBLE);
  for (const char *text : {"", "acme-blob", "acme-blob 12", "acme-blob 2", "acme-blob 2 board-7", " acme-blob 1"}) {
    EXPECT_EQ(failure_of([&] { check_format(text, "acme-blob 1", "edgecore-acme"); }),
              "'" + std::string(text) +
                  "' is not a format that this release of edgecore-acme reads: compile the model again, or install the "
                  "release that compiled it");
  }
}

}  // namespace
