// Tests loading programs and data files piece by piece.
#include "core/segments.h"

#include <thread>

#include "file_builder.h"
#include "loaded.h"
#include "pieces_loader.h"

namespace edgecore {
namespace {

std::vector<uint8_t> null_blob() {
  const NullBlob blob;
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&blob);
  return {bytes, bytes + sizeof(blob)};
}

// A program that sums x with a constant and a mutable buffer, then runs a delegate.
PteBuilder summing() {
  PteBuilder pte;
  pte.arenas = {256};
  const int32_t x = pte.add_tensor({2});
  const int32_t weights = pte.add_constant({2}, {1, 2});
  const int32_t state = pte.add_state({2}, {1, 64}, {10, 20});
  const int32_t all = pte.add_tensor_list({x, weights, state});
  const int32_t sum = pte.add_planned({2}, {1, 128});
  const int32_t out = pte.add_tensor({2});
  pte.kernel(pte.add_operator("test::sum", "out"), {all, sum, sum});
  pte.delegate(pte.add_delegate("NullBackend", null_blob()), {sum, out});
  pte.add_named_data("weights", {1, 2, 3});
  pte.add_named_data("unused", {4});
  pte.inputs = {x};
  pte.outputs = {out};
  return pte;
}

TEST(Segments, AreLoadedWhenTheyAreNeeded) {
  const AlignedBytes file(summing().finish());
  PiecesLoader loader(file.view());
  {
    Loaded loaded(loader);
    ASSERT_TRUE(loaded.status.ok()) << text_of(loaded.error);
    EXPECT_EQ(loader.held, 0u);  // the tables are copied
    EXPECT_EQ(loader.count(LoadUse::kTables), loader.uses.size());
    ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
    EXPECT_EQ(loader.count(LoadUse::kConstants), 1u);
    EXPECT_EQ(loader.count(LoadUse::kInitialState), 1u);
    EXPECT_EQ(loader.count(LoadUse::kDelegate), 1u);
    EXPECT_EQ(loader.count(LoadUse::kNamedData), 0u);
    EXPECT_EQ(loader.held, 2 * 2 * sizeof(float));  // constants and initial state; the backend has released its blob

    std::vector<float> x = {100, 200}, out(2);
    ASSERT_TRUE(loaded.set_floats(0, {2}, x) && loaded.set_floats_output(0, out));
    ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
    EXPECT_EQ(loaded.output(0), (std::vector<float>{222, 444}));  // the backend doubles its input

    for (int i = 0; i < 2; ++i) {
      const Result<Bytes> data = loaded.program->named_data("weights", loaded.error);
      ASSERT_TRUE(data.ok());
      EXPECT_EQ((*data)[2], 3);
    }
    EXPECT_EQ(loader.count(LoadUse::kNamedData), 1u);  // the second call reuses the bytes of the first
  }
}

// The memory for loading does not grow with the number of delegates.
TEST(Segments, BlobsAreFreedOneByOne) {
  constexpr size_t kBlobs = 8, kBytes = 1 << 20;
  PteBuilder pte;
  const int32_t x = pte.add_tensor({2}), out = pte.add_tensor({2});
  for (size_t i = 0; i < kBlobs; ++i) {
    std::vector<uint8_t> blob = null_blob();
    blob.resize(kBytes + i);
    pte.delegate(pte.add_delegate("NullBackend", blob), {x, out});
  }
  pte.inputs = {x};
  pte.outputs = {out};
  const AlignedBytes file(pte.finish());
  PiecesLoader loader(file.view());
  Loaded loaded(loader);
  ASSERT_TRUE(loaded.load_method()) << text_of(loaded.error);
  EXPECT_GT(file.view().size(), kBlobs * kBytes);
  EXPECT_LT(loader.peak, kBytes + (16 << 10));
  EXPECT_EQ(loader.held, 0u);
  EXPECT_EQ(loader.count(LoadUse::kDelegate), kBlobs);
}

TEST(Segments, EveryFailureOfALoaderIsAnErrorAndLeavesNothing) {
  const AlignedBytes file(summing().finish());
  size_t failures = 0;
  for (size_t call = 1;; ++call) {
    PiecesLoader loader(file.view());
    loader.fail_at = call;
    Loaded loaded(loader);
    if (loaded.status.ok()) (void)loaded.load_method();
    if (loaded.status.ok()) break;
    ++failures;
    EXPECT_EQ(loaded.status.code(), EDGECORE_ACCESS_FAILED);
    EXPECT_SENTENCE(loaded, "The disk has a bad sector.");
    EXPECT_LE(loader.held, 2 * 2 * sizeof(float));  // constants and initial state stay
  }
  EXPECT_EQ(failures, 5u);  // one failure each: header, tables, constants, initial state, blob
}

TEST(Segments, ALoaderThatSaysNothingGetsASentence) {
  const AlignedBytes file(summing().finish());
  PiecesLoader loader(file.view());
  loader.fail_at = 2;
  loader.silent = true;
  const Loaded loaded(loader);
  EXPECT_EQ(loaded.status.code(), EDGECORE_ACCESS_FAILED);
  EXPECT_SENTENCE(loaded, " bytes of tables from byte 0 of the file cannot be loaded.");
}

TEST(Segments, AShortReadIsAnError) {
  const AlignedBytes file(summing().finish());
  PiecesLoader loader(file.view());
  Loaded loaded(loader);
  loader.missing = 1;
  EXPECT_FALSE(loaded.load_method());
  EXPECT_EQ(loaded.status.code(), EDGECORE_ACCESS_FAILED);
  EXPECT_SENTENCE(loaded, "The 8 bytes of constants from byte ");
  EXPECT_SENTENCE(loaded, " of the file were not loaded whole.");
  EXPECT_EQ(loader.held, 0u);
}

TEST(Segments, MisalignedBytesAreAnError) {
  const AlignedBytes file(summing().finish());
  PiecesLoader loader(file.view());
  loader.shift = 4;  // the tables are copied, so their address does not matter
  Loaded loaded(loader);
  ASSERT_TRUE(loaded.status.ok()) << text_of(loaded.error);
  EXPECT_FALSE(loaded.load_method());
  EXPECT_EQ(loaded.status.code(), EDGECORE_INVALID_PROGRAM);
  EXPECT_SENTENCE(loaded, " of the file were loaded to a misaligned address.");
  EXPECT_EQ(loader.held, 0u);
}

TEST(Segments, ABufferIsUsedInPlace) {
  const AlignedBytes file(summing().finish());
  BufferDataLoader loader(file.view(), 32);
  Error error;
  const Result<Bytes> bytes = loader.load(16, 8, LoadUse::kConstants, error);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ((*bytes).data(), file.view().data() + 16);
  EXPECT_EQ(loader.tail(), 32u);
  for (const uint64_t offset : {uint64_t{1} << 40, UINT64_MAX - 3, static_cast<uint64_t>(file.view().size())}) {
    EXPECT_EQ(loader.load(offset, 8, LoadUse::kConstants, error).status().code(), EDGECORE_INVALID_ARGUMENT);
  }
}

TEST(Segments, ThreadsLoadASegmentOnce) {
  const AlignedBytes file(summing().finish());
  PiecesLoader loader(file.view());
  const Loaded loaded(loader);
  std::vector<std::thread> threads;
  std::vector<const uint8_t *> found(8);
  for (size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      Error error;
      const Result<Bytes> data = loaded.program->named_data("weights", error);
      if (data.ok()) found[i] = (*data).data();
    });
  }
  for (std::thread &thread : threads) thread.join();
  for (const uint8_t *data : found) EXPECT_EQ(data, found[0]);
  EXPECT_NE(found[0], nullptr);
  EXPECT_EQ(loader.held, 3u);
}

TEST(Segments, ADataFileIsLoadedEntryByEntry) {
  PtdBuilder ptd;
  ptd.entries = {{"first", {2}, {1, 2}}, {"second", {3}, {3, 4, 5}}, {"empty", {0}, {}}};
  const AlignedBytes file(ptd.finish());
  PiecesLoader loader(file.view());
  HeapAllocator memory;
  Error error;
  const Result<const DataFile *> loaded = DataFile::load(loader, "w.ptd", &memory, {}, error);
  ASSERT_TRUE(loaded.ok()) << text_of(error);
  EXPECT_EQ(loader.held, 0u);
  NamedBytes entry;
  ASSERT_TRUE((*loaded)->find("second", entry, error).ok());
  EXPECT_EQ(entry.bytes[2], 5);
  EXPECT_EQ(loader.held, 3u);
  ASSERT_TRUE((*loaded)->find("empty", entry, error).ok());
  EXPECT_EQ(entry.bytes.size(), 0u);
  EXPECT_EQ((*loaded)->find("third", entry, error).code(), EDGECORE_NOT_FOUND);
  loader.fail_at = loader.uses.size() + 1;
  EXPECT_EQ((*loaded)->find("first", entry, error).code(), EDGECORE_ACCESS_FAILED);
}

}  // namespace
}  // namespace edgecore
