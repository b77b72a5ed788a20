// Tests loading of external weights files (.ptd), valid and damaged.
#include "edgecore/data.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "edgecore/bundled.h"
#include "file_builder.h"
#include "loaded.h"

namespace edgecore {
namespace {

struct LoadedData {
  std::vector<uint8_t> bytes;
  BufferDataLoader loader{Bytes()};
  std::vector<uint8_t> memory = std::vector<uint8_t>(1 << 20);
  BufferAllocator allocator{MutableBytes(memory.data(), memory.size())};
  Error error;
  const DataFile *file = nullptr;

  explicit LoadedData(std::vector<uint8_t> content, const char *name = "w.ptd", Limits limits = {})
      : bytes(std::move(content)) {
    loader = BufferDataLoader({bytes.data(), bytes.size()});
    const Result<const DataFile *> loaded = DataFile::load(loader, name, &allocator, limits, error);
    if (loaded.ok()) file = *loaded;
  }
  std::string sentence() const { return {error.text, error.size}; }
};

PtdBuilder two_tensors() {
  PtdBuilder ptd;
  ptd.entries = {{"b.weight", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"a.weight", {2}, {7, 8}}, {"blob", {}, {9, 9, 9}, false}};
  return ptd;
}

void expect_refused(const LoadedData &data, const char *part) {
  EXPECT_EQ(data.file, nullptr);
  EXPECT_NE(data.sentence().find(part), std::string::npos) << data.sentence();
}

TEST(DataFile, FindsEntriesByName) {
  LoadedData data(two_tensors().finish());
  ASSERT_NE(data.file, nullptr) << data.sentence();
  EXPECT_EQ(data.file->count(), 3u);
  EXPECT_TRUE(data.file->key(0) == "a.weight");
  NamedBytes entry;
  ASSERT_TRUE(data.file->find("b.weight", entry, data.error).ok());
  EXPECT_TRUE(entry.has_layout);
  ASSERT_EQ(entry.bytes.size(), 6u);
  EXPECT_EQ(entry.bytes[5], 6);
  ASSERT_TRUE(data.file->find("blob", entry, data.error).ok());
  EXPECT_FALSE(entry.has_layout);
  EXPECT_FALSE(data.file->contains("c"));
}

TEST(DataFile, RefusesEveryTruncation) {
  const std::vector<uint8_t> file = two_tensors().finish();
  for (size_t size = 0; size < file.size(); ++size) {
    const LoadedData data({file.begin(), file.begin() + static_cast<ptrdiff_t>(size)});
    EXPECT_EQ(data.file, nullptr) << size;
  }
}

TEST(DataFile, RefusesSegmentsOutsideOfTheFile) {
  PtdBuilder ptd = two_tensors();
  ptd.segment_offset_error = 1000;
  expect_refused(LoadedData(ptd.finish()), "exceeds the");
  ptd.segment_offset_error = -17;  // wraps around
  expect_refused(LoadedData(ptd.finish()), "exceeds the");
  ptd.segment_offset_error = 0;
  ptd.segment_size_error = -1;
  expect_refused(LoadedData(ptd.finish()), "needs 6 bytes, its segment has 5.");
}

TEST(DataFile, RefusesANameThatOccursTwice) {
  PtdBuilder ptd = two_tensors();
  ptd.entries.push_back(ptd.entries[0]);
  expect_refused(LoadedData(ptd.finish()), "the name 'b.weight' occurs twice");
}

TEST(DataFile, LayoutsMustMatchTheBytes) {
  PtdBuilder ptd = two_tensors();
  ptd.entries[0].sizes = {-2, -3};
  expect_refused(LoadedData(ptd.finish()), "negative or too large");
  ptd.entries[0].sizes = {1 << 30, 1 << 30, 1 << 30};
  expect_refused(LoadedData(ptd.finish()), "negative or too large");
  ptd.entries[0].sizes = std::vector<int32_t>(17, 1);
  expect_refused(LoadedData(ptd.finish()), "above the limit 16");
}

TEST(DataFile, RefusesNewerVersionsOtherFilesAndFilesPastALimit) {
  PtdBuilder ptd = two_tensors();
  ptd.version = 1;
  expect_refused(LoadedData(ptd.finish()), "has version 1");
  Limits limits;
  limits.flatbuffer_bytes = 100;
  expect_refused(LoadedData(two_tensors().finish(), "w.ptd", limits), "the limit flatbuffer_bytes is 100");
  expect_refused(LoadedData({'n', 'o', 'n', 'e'}), "this is not a .ptd file");
}

TEST(DataFile, OneNameInTwoFilesIsAmbiguous) {
  const LoadedData first(two_tensors().finish(), "first.ptd");
  const LoadedData second(two_tensors().finish(), "second.ptd");
  const DataFile *files[] = {first.file, second.file};
  Error error;
  EXPECT_FALSE(check_data_files(files, error).ok());
  EXPECT_EQ(std::string(error.text, error.size),
            "Data files first.ptd and second.ptd both have 'a.weight'; pass one of them.");
}

TEST(DataFile, AnErrorNamesTheKeyThatTheProgramMisses) {
  PteBuilder pte;
  const std::vector<uint8_t> file = pte.finish();
  (void)file;
  const LoadedData data(two_tensors().finish());
  const DataFile *files[] = {data.file};
  ProgramConfig config;
  std::vector<uint8_t> memory(1 << 20);
  BufferAllocator allocator{MutableBytes(memory.data(), memory.size())};
  config.allocator = &allocator;
  config.data = files;
  std::vector<uint8_t> aligned(file.size() + 128);
  uint8_t *start = aligned.data() + (128 - reinterpret_cast<uintptr_t>(aligned.data()) % 128) % 128;
  memcpy(start, file.data(), file.size());
  Error error;
  BufferDataLoader loader(Bytes(start, file.size()));
  const Result<const Program *> program = Program::load(loader, config, error);
  ASSERT_TRUE(program.ok()) << std::string(error.text, error.size);
  NamedBytes found;
  EXPECT_TRUE((*program)->external_data("a.weight", found, error).ok());
  EXPECT_FALSE((*program)->external_data("c.weight", found, error).ok());
  EXPECT_NE(std::string(error.text, error.size).find("'c.weight' outside, and it is not in w.ptd"), std::string::npos);
}

}  // namespace
}  // namespace edgecore
