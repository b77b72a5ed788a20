// Tests the checks of the table that a plugin exports, a struct of functions and properties: its version, size and
// required members.
#include <string.h>

#include "loaded.h"

namespace edgecore {
namespace {

constexpr HostVersions kHost1x4 = {{1, 0}, {1, 4}};
constexpr HostVersions kHost2x1 = {{1, 2}, {2, 1}};  // version 2.1, which also supports plugins from version 1.2 on

TEST(Negotiate, VersionZeroMustBeEqual) {
  const HostVersions host = {{0, 3}, {0, 3}};
  EXPECT_EQ(negotiate({{0, 3}, {0, 3}}, host), Fit::kFits);
  EXPECT_EQ(negotiate({{0, 3}, {9, 9}}, host), Fit::kFits);
  EXPECT_EQ(negotiate({{0, 2}, {0, 2}}, host), Fit::kUpdatePlugin);
  EXPECT_EQ(negotiate({{0, 4}, {0, 3}}, host), Fit::kUpdateHost);
  EXPECT_EQ(negotiate({{1, 0}, {0, 3}}, host), Fit::kUpdateHost);
  EXPECT_EQ(negotiate({{0, 9}, {0, 9}}, {{0, 10}, {0, 10}}), Fit::kUpdatePlugin);
  EXPECT_EQ(negotiate({{0, 3}, {0, 3}}, kHost1x4), Fit::kUpdatePlugin);
}

TEST(Negotiate, OlderPluginsOfAKnownReleaseFit) {
  EXPECT_EQ(negotiate({{1, 0}, {1, 0}}, kHost1x4), Fit::kFits);
  EXPECT_EQ(negotiate({{1, 4}, {1, 4}}, kHost1x4), Fit::kFits);
  EXPECT_EQ(negotiate({{1, 2}, {1, 0}}, kHost2x1), Fit::kFits);
  EXPECT_EQ(negotiate({{1, 1}, {1, 0}}, kHost2x1), Fit::kUpdatePlugin);
}

TEST(Negotiate, NewerPluginsFitIfTheyNameThisHostAsNewEnough) {
  EXPECT_EQ(negotiate({{1, 9}, {1, 4}}, kHost1x4), Fit::kFits);
  EXPECT_EQ(negotiate({{1, 9}, {1, 5}}, kHost1x4), Fit::kUpdateHost);
  EXPECT_EQ(negotiate({{2, 9}, {1, 3}}, kHost2x1), Fit::kFits);
  EXPECT_EQ(negotiate({{2, 0}, {1, 0}}, kHost1x4), Fit::kUpdateHost);  // other major versions have other layouts
  EXPECT_EQ(negotiate({{65535, 65535}, {0, 0}}, kHost2x1), Fit::kUpdateHost);
}

std::string refusal(const PluginVersions &plugin, const HostVersions &host, StringView package) {
  Error error;
  EXPECT_EQ(check_versions(plugin, host, package, "/lib/libacme.so", error).code(), EDGECORE_NOT_SUPPORTED);
  return text_of(error);
}

TEST(CheckVersions, NamesBothVersionsAndThePackageToUpdate) {
  EXPECT_EQ(
      refusal({{1, 9}, {1, 5}}, kHost1x4, "edgecore-acme"),
      "The plugin edgecore-acme in /lib/libacme.so was built for version 1.9 of the native interface and needs at "
      "least 1.5; this edgecore has 1.4 and works with plugins of 1.0 or later: update the package edgecore.");
  EXPECT_EQ(refusal({{1, 1}, {1, 0}}, kHost2x1, "edgecore-acme"),
            "The plugin edgecore-acme in /lib/libacme.so was built for version 1.1 of the native interface; this "
            "edgecore has 2.1 and works with plugins of 1.2 or later: update the package edgecore-acme.");
  EXPECT_EQ(refusal({{0, 2}, {0, 2}}, {{0, 3}, {0, 3}}, "edgecore-acme"),
            "The plugin edgecore-acme in /lib/libacme.so was built for version 0.2 of the native interface; this "
            "edgecore has 0.3: update the package edgecore-acme.");
  EXPECT_EQ(refusal({{0, 2}, {0, 2}}, {{0, 3}, {0, 3}}, ""),
            "The plugin in /lib/libacme.so was built for version 0.2 of the native interface; this edgecore has 0.3: "
            "update the package that the plugin belongs to.");
}

// Returns the error of check_backend for a table; empty if the table is accepted.
std::string verdict(const edgecore_backend *table, uint32_t host_features = 0) {
  Error error;
  return check_backend(table, host_features, "libnull.so", error).ok() ? "" : text_of(error);
}

bool contains(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

TEST(CheckBackend, AnErrorSaysWhatDoesNotFit) {
  EXPECT_EQ(verdict(null_backend(0)), "");
  edgecore_backend table = *null_backend(0);
  table.header.minor += 1;
  EXPECT_TRUE(contains(verdict(&table), "The plugin edgecore-null in libnull.so was built for version"));
  table = *null_backend(0);
  table.execute = nullptr;
  EXPECT_TRUE(contains(verdict(&table), "'NullBackend' in libnull.so lacks a required function"));
  table = *null_backend(EDGECORE_VALIDATES_BLOBS);
  EXPECT_TRUE(contains(verdict(&table), "must declare one way of threading"));
  table = *null_backend(EDGECORE_VALIDATES_BLOBS | EDGECORE_NO_THREADS | EDGECORE_VENDOR_THREADS);
  EXPECT_TRUE(contains(verdict(&table), "must declare one way of threading"));
  EXPECT_EQ(verdict(null_backend(EDGECORE_VALIDATES_BLOBS | EDGECORE_VENDOR_THREADS)), "");
  table = *null_backend(0);
  table.features = EDGECORE_FEATURE_TSAN;
  EXPECT_TRUE(contains(verdict(&table, EDGECORE_FEATURE_ASAN), "was built with features 2"));
  table = *null_backend(0);
  table.import_state = nullptr;
  EXPECT_TRUE(contains(verdict(&table), "has 6 of the 7 functions for state sets: it must have all of them or none"));
  EXPECT_TRUE(contains(verdict(nullptr), "gives no backend table"));
}

// Checks a table that is an allocation of exactly `size` bytes, so that a sanitizer detects reads past its end.
std::string verdict_of_size(uint32_t size) {
  const std::unique_ptr<uint8_t[]> memory(new uint8_t[size]);
  const edgecore_backend *table = null_backend(0);
  memcpy(memory.get(), table, size < sizeof(*table) ? size : sizeof(*table));
  if (size > sizeof(*table)) memset(memory.get() + sizeof(*table), 0xff, size - sizeof(*table));
  memcpy(memory.get(), &size, sizeof(size));
  return verdict(reinterpret_cast<const edgecore_backend *>(memory.get()));
}

TEST(CheckBackend, AcceptsTablesOfOtherSizes) {
  EXPECT_EQ(verdict_of_size(sizeof(edgecore_backend)), "");
  EXPECT_EQ(verdict_of_size(sizeof(edgecore_backend) + 64), "");              // a table of a later release
  EXPECT_EQ(verdict_of_size(offsetof(edgecore_backend, buffer_create)), "");  // without optional members
  EXPECT_TRUE(contains(verdict_of_size(offsetof(edgecore_backend, execute)), "bytes, less than"));
  EXPECT_TRUE(contains(verdict_of_size(sizeof(edgecore_header)), "bytes, less than"));
}

TEST(CheckKernelLibrary, AnErrorSaysWhatDoesNotFit) {
  Error error;
  edgecore_kernel_library library = *toy_kernels();
  EXPECT_TRUE(check_kernel_library(&library, "here", error).ok());
  library.header.major = 7;
  EXPECT_FALSE(check_kernel_library(&library, "libops.so", error).ok());
  EXPECT_TRUE(contains(text_of(error), "was built for version 7.")) << text_of(error);
  EXPECT_TRUE(contains(text_of(error), "update the package edgecore.")) << text_of(error);
  library = *toy_kernels();
  library.header.struct_size = sizeof(edgecore_header);
  EXPECT_FALSE(check_kernel_library(&library, "libops.so", error).ok());
}

}  // namespace
}  // namespace edgecore
