// Tests the loaders of files: the bytes that they read, and their errors for unreadable or changing files.
#include "edgecore/file_data_loader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>

#include "error_text.h"
#include "host/copied_data_loader.h"
#include "temporary_file.h"

namespace edgecore {
namespace {

constexpr LoadMode kModes[] = {LoadMode::kFile, LoadMode::kMmap, LoadMode::kMmapUseMlock,
                               LoadMode::kMmapUseMlockIgnoreErrors, LoadMode::kMmapUseMadvise};

std::string text_of(Bytes bytes) { return {reinterpret_cast<const char *>(bytes.data()), bytes.size()}; }

// A file whose byte i is i / 16.
std::string content_of(size_t size) {
  std::string content(size, '\0');
  for (size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i / 16);
  return content;
}

class EachMode : public testing::TestWithParam<LoadMode> {};

TEST_P(EachMode, LoadsPiecesWithAReadableTail) {
  const std::string content = content_of(static_cast<size_t>(sysconf(_SC_PAGESIZE)));  // it ends where a page ends
  const TemporaryFile source(content);
  std::unique_ptr<SystemDataLoader> loader;
  Error error;
  ASSERT_TRUE(open_file(source.path(), GetParam(), loader, error).ok()) << edgecore::text_of(error);
  ASSERT_EQ(loader->size(), content.size());
  for (const auto &[offset, size] : {std::pair<size_t, size_t>{0, content.size()}, {128, 5}, {content.size() - 1, 1}}) {
    const Result<Bytes> piece = loader->load(offset, size, LoadUse::kConstants, error);
    ASSERT_TRUE(piece.ok()) << edgecore::text_of(error);
    EXPECT_EQ(text_of(*piece), content.substr(offset, size));
    if (offset % 64 == 0) EXPECT_EQ(reinterpret_cast<uintptr_t>((*piece).data()) % 64, 0u);
    uint32_t sum = 0;
    for (size_t i = 0; i < loader->tail(); ++i) sum += (*piece).data()[size + i];  // the tail is readable
    if (offset + size == content.size()) EXPECT_EQ(sum, 0u);
    loader->release(*piece);
  }
  const Result<Bytes> kept = loader->load(256, 64, LoadUse::kConstants, error);
  loader->drop_pages();
  EXPECT_EQ(text_of(*kept), content.substr(256, 64));
}

TEST_P(EachMode, SaysWhatIsWrongWithAFile) {
  std::unique_ptr<SystemDataLoader> loader;
  Error error;
  EXPECT_EQ(open_file("/no/such/file.pte", GetParam(), loader, error).code(), EDGECORE_ACCESS_FAILED);
  EXPECT_EQ(edgecore::text_of(error), "Cannot open /no/such/file.pte: No such file or directory.");
  EXPECT_EQ(open_file("/tmp", GetParam(), loader, error).code(), EDGECORE_INVALID_PROGRAM);
  EXPECT_EQ(edgecore::text_of(error), "/tmp is not a regular file.");
  const TemporaryFile nothing("");
  EXPECT_EQ(open_file(nothing.path(), GetParam(), loader, error).code(), EDGECORE_INVALID_PROGRAM);
  EXPECT_NE(edgecore::text_of(error).find(" is empty."), std::string::npos);
}

TEST_P(EachMode, SaysThatAFileIsUnreadable) {
  const TemporaryFile source("secret");
  ASSERT_EQ(chmod(source.path(), 0), 0);
  const uid_t user = geteuid();
  if (user == 0) ASSERT_EQ(seteuid(65534), 0);  // root may read any file
  std::unique_ptr<SystemDataLoader> loader;
  Error error;
  EXPECT_EQ(open_file(source.path(), GetParam(), loader, error).code(), EDGECORE_ACCESS_FAILED);
  EXPECT_EQ(edgecore::text_of(error), std::string("Cannot open ") + source.path() + ": Permission denied.");
  if (user == 0) ASSERT_EQ(seteuid(user), 0);
}

#ifdef F_SETLEASE
// open() fails with EWOULDBLOCK only while another process has a write lease on the file, and Linux grants no lease on
// an open file.
TEST_P(EachMode, SaysThatAnotherProcessHasLockedAFile) {
  const TemporaryFile source("leased");
  int leased[2], finished[2];
  ASSERT_EQ(pipe(leased), 0);
  ASSERT_EQ(pipe(finished), 0);
  const pid_t holder = fork();
  ASSERT_GE(holder, 0);
  if (holder == 0) {
    close(finished[1]);
    signal(SIGIO, SIG_IGN);  // the system asks for the lease back
    const int descriptor = ::open(source.path(), O_WRONLY);
    const char ok = fcntl(descriptor, F_SETLEASE, F_WRLCK) == 0;
    char nothing;
    (void)!write(leased[1], &ok, 1);
    (void)!read(finished[0], &nothing, 1);  // wait until the parent closes the other end
    _exit(0);
  }
  close(finished[0]);
  char ok = 0;
  ASSERT_EQ(read(leased[0], &ok, 1), 1);
  std::unique_ptr<SystemDataLoader> loader;
  Error error;
  const Status status = open_file(source.path(), GetParam(), loader, error);
  close(finished[1]);
  ASSERT_EQ(waitpid(holder, nullptr, 0), holder);
  close(leased[0]);
  close(leased[1]);
  if (ok == 0) GTEST_SKIP() << "the file system of " << source.path() << " has no leases";
  EXPECT_EQ(status.code(), EDGECORE_ACCESS_FAILED);
  EXPECT_EQ(edgecore::text_of(error), std::string("Cannot open ") + source.path() + ": another process has locked it.");
  EXPECT_TRUE(open_file(source.path(), GetParam(), loader, error).ok()) << edgecore::text_of(error);
}
#endif

TEST_P(EachMode, RefusesBytesOutsideOfTheFile) {
  const TemporaryFile source(content_of(64));
  std::unique_ptr<SystemDataLoader> loader;
  Error error;
  ASSERT_TRUE(open_file(source.path(), GetParam(), loader, error).ok());
  for (const uint64_t offset : {uint64_t{60}, uint64_t{65}, UINT64_MAX - 3, UINT64_MAX}) {
    EXPECT_EQ(loader->load(offset, 8, LoadUse::kConstants, error).status().code(), EDGECORE_INVALID_ARGUMENT);
    EXPECT_EQ(edgecore::text_of(error), source.path() + std::string(" has 64 bytes; 8 bytes from byte ") +
                                            std::to_string(offset) + " are not in it.");
  }
}

INSTANTIATE_TEST_SUITE_P(All, EachMode, testing::ValuesIn(kModes));

// An open file of 64 bytes in the test's folder, which is read piece by piece.
struct OpenFile {
  TemporaryFile source{content_of(64)};
  FileDataLoader loader;
  Error error;

  OpenFile() { EXPECT_TRUE(loader.open(source.path(), error).ok()); }
  std::string load() {
    const Result<Bytes> piece = loader.load(0, 64, LoadUse::kConstants, error);
    if (piece.ok()) return "";
    EXPECT_EQ(piece.status().code(), EDGECORE_ACCESS_FAILED);
    return edgecore::text_of(error);
  }
  std::string message(const char *rest) const { return source.path() + std::string(rest); }
};

TEST(FileDataLoader, SaysThatTheFileHasChanged) {
  OpenFile shorter;
  ASSERT_EQ(truncate(shorter.source.path(), 40), 0);
  EXPECT_EQ(shorter.load(),
            shorter.message(" was truncated while it was loaded: it has 40 bytes, and had 64 when it was opened."));

  OpenFile longer;
  ASSERT_EQ(truncate(longer.source.path(), 70), 0);
  EXPECT_EQ(longer.load(),
            longer.message(" has grown while it was loaded: it has 70 bytes, and had 64 when it was opened."));

  OpenFile deleted;
  ASSERT_EQ(unlink(deleted.source.path()), 0);
  EXPECT_EQ(deleted.load(), deleted.message(" was deleted or replaced while it was loaded."));

  OpenFile replaced;
  const TemporaryFile other(content_of(64));
  ASSERT_EQ(rename(other.path(), replaced.source.path()), 0);
  EXPECT_EQ(replaced.load(), replaced.message(" was deleted or replaced while it was loaded."));

  OpenFile written;
  const timespec times[] = {{1, 0}, {1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, written.source.path(), times, 0), 0);
  EXPECT_EQ(written.load(), written.message(" was written to while it was loaded."));
}

// The behaviour of read_as_told.
struct Reads {
  int calls = 0;
  int interrupted_at = 0;       // number of the interrupted call, from 1
  int failure = 0;              // errno that every call returns
  size_t max_bytes = SIZE_MAX;  // maximum number of bytes that a call returns
  off_t end = 1 << 20;          // end of the file: reads stop there
} told;

ssize_t read_as_told(int descriptor, void *to, size_t size, off_t offset) {
  ++told.calls;
  errno = told.calls == told.interrupted_at ? EINTR : told.failure;
  if (errno != 0) return -1;
  return offset >= told.end ? 0 : pread(descriptor, to, std::min(size, told.max_bytes), offset);
}

TEST(FileDataLoader, GoesOnAfterShortAndInterruptedReads) {
  const TemporaryFile source(content_of(64));
  told = {};
  FileDataLoader loader(read_as_told);
  Error error;
  ASSERT_TRUE(loader.open(source.path(), error).ok());
  told.max_bytes = 10;
  told.interrupted_at = 3;
  const Result<Bytes> piece = loader.load(16, 48, LoadUse::kConstants, error);
  ASSERT_TRUE(piece.ok()) << edgecore::text_of(error);
  EXPECT_EQ(text_of(*piece), content_of(64).substr(16));
  EXPECT_EQ(told.calls, 6);
}

TEST(FileDataLoader, SaysWhyAReadFailed) {
  const TemporaryFile source(content_of(64));
  told = {};
  FileDataLoader loader(read_as_told);
  Error error;
  ASSERT_TRUE(loader.open(source.path(), error).ok());
  told.failure = EIO;
  EXPECT_EQ(loader.load(16, 48, LoadUse::kConstants, error).status().code(), EDGECORE_ACCESS_FAILED);
  EXPECT_EQ(edgecore::text_of(error),
            std::string("Cannot read 48 bytes from byte 16 of ") + source.path() + ": Input/output error.");
  told.failure = 0;
  told.max_bytes = 24;
  told.end = 40;
  EXPECT_EQ(loader.load(16, 48, LoadUse::kConstants, error).status().code(), EDGECORE_ACCESS_FAILED);
  EXPECT_EQ(edgecore::text_of(error), source.path() + std::string(" ends at byte 40 of the 48 bytes from byte 16."));
}

TEST(FileDataLoader, SharesEqualPiecesAndRefusesOverlappingOnes) {
  const TemporaryFile source(content_of(256));
  FileDataLoader loader;
  Error error;
  ASSERT_TRUE(loader.open(source.path(), error).ok());
  const Result<Bytes> first = loader.load(0, 256, LoadUse::kDelegate, error);
  for (int i = 0; i < 10; ++i) {
    const Result<Bytes> again = loader.load(0, 256, LoadUse::kDelegate, error);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ((*again).data(), (*first).data());
    loader.release(*again);
  }
  ASSERT_TRUE(loader.load(0, 255, LoadUse::kDelegate, error).ok());
  EXPECT_EQ(loader.load(0, 254, LoadUse::kDelegate, error).status().code(), EDGECORE_INVALID_PROGRAM);
  EXPECT_NE(edgecore::text_of(error).find("its segments overlap"), std::string::npos);
  loader.release(*first);
  EXPECT_TRUE(loader.load(0, 254, LoadUse::kDelegate, error).ok());
}

TEST(FileDataLoader, ReadsFromADescriptorOfTheCaller) {
  const TemporaryFile source(content_of(64));
  const int descriptor = ::open(source.path(), O_RDONLY);
  Error error;
  {
    FileDataLoader loader;
    ASSERT_TRUE(loader.open(descriptor, "the asset", error).ok());
    const Result<Bytes> piece = loader.load(16, 16, LoadUse::kTables, error);
    EXPECT_EQ(text_of(*piece), std::string(16, 1));
    EXPECT_FALSE(loader.load(60, 8, LoadUse::kTables, error).ok());
    EXPECT_EQ(edgecore::text_of(error), "the asset has 64 bytes; 8 bytes from byte 60 are not in it.");
  }
  EXPECT_EQ(close(descriptor), 0);
}

TEST(CopiedDataLoader, CopiesAligned) {
  const uint8_t content[] = {1, 2, 3};
  std::unique_ptr<SystemDataLoader> loader;
  Error error;
  ASSERT_TRUE(CopiedDataLoader::copy(content, loader, error).ok());
  const Result<Bytes> piece = loader->load(0, 3, LoadUse::kTables, error);
  EXPECT_EQ((*piece)[2], 3);
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*piece).data()) % 128, 0u);
  EXPECT_EQ((*piece).data()[3 + loader->tail() - 1], 0);
}

TEST(LoadMode, HasNames) {
  Error error;
  EXPECT_EQ(*load_mode_of("file", error), LoadMode::kFile);
  EXPECT_EQ(*load_mode_of("mmap_use_madvise", error), LoadMode::kMmapUseMadvise);
  EXPECT_EQ(load_mode_of("mapped", error).status().code(), EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(edgecore::text_of(error),
            "There is no load mode 'mapped'; there are 'file', 'mmap', 'mmap_use_mlock', "
            "'mmap_use_mlock_ignore_errors', 'mmap_use_madvise'.");
}

}  // namespace
}  // namespace edgecore
