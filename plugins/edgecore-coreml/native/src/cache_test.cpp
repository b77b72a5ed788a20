// Tests the cache of folders: it has a blob's complete folder or none.
#include "cache.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "test_support.h"

namespace edgecore::coreml {
namespace {

namespace fs = std::filesystem;
using test::expect_failure;
using test::view;

class Cache : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("edgecore-coreml-cache-" + std::to_string(::getpid()));
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string get(const std::string &blob) {
    return cached_folder(root_.string(), view(blob), {{"d/file", view(blob)}},
                         [&](const std::string &) { ++finished_; });
  }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(root_), fs::directory_iterator()));
  }

  fs::path root_;
  std::atomic<int> finished_{0};
};

TEST_F(Cache, AFolderIsMadeOnceForEachContent) {
  const std::string first = get("abc");
  EXPECT_EQ(fs::path(first).filename(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(get("abc"), first);
  EXPECT_NE(get("abd"), first);
  EXPECT_EQ(finished_, 2);
  EXPECT_EQ(entries(), 2u);
  std::ifstream file(first + "/d/file");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "abc");
}

TEST_F(Cache, AFolderThatCannotBeFinishedIsRemoved) {
  const auto fails = [](const std::string &) { edgecore::backend::fail(EDGECORE_INTERNAL, "no compiler"); };
  expect_failure("no compiler", [&] { cached_folder(root_.string(), view("abc"), {{"f", view("x")}}, fails); });
  EXPECT_EQ(entries(), 0u);
}

TEST_F(Cache, ThreadsThatMakeTheSameFolderGetTheSame) {
  std::vector<std::thread> threads;
  std::vector<std::string> folders(8);
  for (std::string &folder : folders) threads.emplace_back([&] { folder = get("abc"); });
  for (std::thread &thread : threads) thread.join();
  for (const std::string &folder : folders) EXPECT_EQ(folder, folders[0]);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Cache, AFileThatCannotBeWrittenIsNamed) {
  fs::create_directories(root_.parent_path());
  std::ofstream(root_.string()) << "no folder";
  expect_failure("cannot be written", [&] { get("abc"); });
}

TEST_F(Cache, TheDefaultIsTheFolderOfTheEnvironment) {
  ::setenv("XDG_CACHE_HOME", "/tmp/own", 1);
  EXPECT_EQ(default_cache(), "/tmp/own/edgecore-coreml");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(default_cache(), "/home/me/.cache/edgecore-coreml");
  ::unsetenv("HOME");
  expect_failure("set the load option model_cache_folder", [] { default_cache(); });
}

}  // namespace
}  // namespace edgecore::coreml
