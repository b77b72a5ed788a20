// Tests the file with compiled shaders: it returns the bytes that were written for the same device and driver, or
// nothing.
#include "pipeline_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace edgecore::vulkan {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

class PipelineCache : public ::testing::Test {
 protected:
  PipelineCache() {
    std::string path = (fs::temp_directory_path() / "edgecore-vulkan-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
    folder_ = path;
    properties_.vendorID = 7;
    properties_.deviceID = 8;
    properties_.driverVersion = 9;
    properties_.apiVersion = VK_API_VERSION_1_1;
    std::fill(std::begin(properties_.pipelineCacheUUID), std::end(properties_.pipelineCacheUUID), uint8_t{0xa5});
  }
  ~PipelineCache() override { fs::remove_all(folder_); }

  PipelineCacheFile file() const { return {folder_, properties_}; }
  // Returns the path of the only file in the folder.
  fs::path path() const {
    const std::vector<fs::path> files{fs::directory_iterator(folder_), fs::directory_iterator()};
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? fs::path() : files[0];
  }

  fs::path folder_;
  VkPhysicalDeviceProperties properties_ = {};
};

Bytes content(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write(const fs::path &path, const Bytes &bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

TEST_F(PipelineCache, AFileIsReadAsItWasWritten) {
  const Bytes first = {1, 2, 3}, second = {4, 5};
  EXPECT_TRUE(file().read().empty());
  file().write(first);
  EXPECT_EQ(file().read(), first);
  file().write(second);
  EXPECT_EQ(file().read(), second);
  EXPECT_EQ(fs::status(path()).permissions() & fs::perms(0077), fs::perms::none);
}

TEST_F(PipelineCache, FoldersAreCreatedAndNoFolderMeansNoFile) {
  const PipelineCacheFile nested(folder_ / "a" / "b", properties_), none("", properties_);
  nested.write({1});
  EXPECT_EQ(nested.read(), Bytes{1});
  EXPECT_TRUE(nested.is_open());
  EXPECT_FALSE(none.is_open());
  EXPECT_TRUE(none.read().empty());
}

TEST_F(PipelineCache, FilesOfOtherDevicesAndDriversAreNotRead) {
  file().write({1, 2, 3});
  const Bytes whole = content(path());
  const auto change = [&](auto &&member) {
    VkPhysicalDeviceProperties other = properties_;
    member(other);
    // Try also the name of the other device's file.
    for (const auto &entry : fs::directory_iterator(folder_)) fs::remove(entry);
    const PipelineCacheFile another(folder_, other);
    another.write({9});
    write(path(), whole);
    return another.read();
  };
  EXPECT_TRUE(change([](auto &one) { ++one.vendorID; }).empty());
  EXPECT_TRUE(change([](auto &one) { ++one.deviceID; }).empty());
  EXPECT_TRUE(change([](auto &one) { ++one.driverVersion; }).empty());
  EXPECT_TRUE(change([](auto &one) { ++one.apiVersion; }).empty());
  EXPECT_TRUE(change([](auto &one) { ++one.pipelineCacheUUID[15]; }).empty());
  EXPECT_EQ(change([](auto &) {}), (Bytes{1, 2, 3}));
}

TEST_F(PipelineCache, ADamagedFileIsNotRead) {
  const PipelineCacheFile cache = file();
  cache.write(Bytes(16, 7));
  const fs::path place = path();
  const Bytes whole = content(place);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const uint8_t flip : {0x01, 0x80}) {
      Bytes damaged = whole;
      damaged[at] ^= flip;
      write(place, damaged);
      EXPECT_TRUE(cache.read().empty()) << "byte " << at;
    }
    write(place, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at)});
    EXPECT_TRUE(cache.read().empty()) << at << " bytes";
  }
  Bytes longer = whole;
  longer.push_back(0);
  write(place, longer);
  EXPECT_TRUE(cache.read().empty());
  write(place, whole);
  EXPECT_EQ(cache.read(), Bytes(16, 7));
}

TEST_F(PipelineCache, FilesThatOthersMayWriteAndLinksAreNotRead) {
  const PipelineCacheFile cache = file();
  cache.write({1, 2, 3});
  const fs::path place = path(), elsewhere = folder_ / "elsewhere";
  for (const mode_t mode : {0620, 0602}) {
    chmod(place.c_str(), mode);
    EXPECT_TRUE(cache.read().empty());
  }
  chmod(place.c_str(), 0600);
  fs::rename(place, elsewhere);
  fs::create_symlink(elsewhere, place);
  EXPECT_TRUE(cache.read().empty());
  cache.write({4});  // replaces the link, not its target
  EXPECT_EQ(cache.read(), Bytes{4});
  EXPECT_FALSE(fs::is_symlink(place));
}

TEST_F(PipelineCache, ErrorsOfTheFileSystemAreNoFailures) {
  write(folder_ / "file", {1});
  const PipelineCacheFile below_a_file(folder_ / "file" / "folder", properties_);
  below_a_file.write({1});
  EXPECT_TRUE(below_a_file.read().empty());
  fs::remove(folder_ / "file");

  const PipelineCacheFile cache = file();
  cache.write({1});
  const fs::path place = path();
  fs::remove(place);
  fs::create_directories(place / "folder");
  cache.write({2});
  EXPECT_TRUE(cache.read().empty());
  EXPECT_EQ(path(), place);  // checks that no temporary file remains
}

TEST_F(PipelineCache, ReadersSeeTheWholeFileOfOneWriter) {
  constexpr int kWriters = 4, kWrites = 30;
  file().write(Bytes(5000, 0));
  std::atomic<bool> is_done{false};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      const PipelineCacheFile cache = file();
      for (int i = 0; i < kWrites; ++i) {
        cache.write(Bytes(static_cast<size_t>(5000 + 3000 * writer), static_cast<uint8_t>(writer)));
      }
    });
  }
  std::thread reader([&] {
    const PipelineCacheFile cache = file();
    while (!is_done) {
      const Bytes seen = cache.read();
      ASSERT_FALSE(seen.empty());
      ASSERT_EQ(seen, Bytes(size_t{5000} + 3000 * size_t{seen[0]}, seen[0]));
    }
  });
  for (std::thread &thread : threads) thread.join();
  is_done = true;
  reader.join();
  path();  // checks that no temporary file remains
}

}  // namespace
}  // namespace edgecore::vulkan
