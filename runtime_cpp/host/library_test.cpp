#include "host/library.h"

#include <gtest/gtest.h>

#include <string>

#include "edgecore/module.h"

namespace edgecore {
namespace {

std::string sentence(const Error &error) { return {error.text, error.size}; }

TEST(Library, LoadsABackendOnce) {
  Error error;
  const auto first = load_backend_library(TOY_BACKEND, "ToyBackend", error);
  ASSERT_TRUE(first.ok()) << sentence(error);
  const auto second = load_backend_library(TOY_BACKEND, {}, error);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(*first, *second);
}

TEST(Library, RefusesARelativePath) {
  Error error;
  EXPECT_EQ(load_backend_library("libtoy.so", {}, error).status().code(), EDGECORE_INVALID_ARGUMENT);
  EXPECT_NE(sentence(error).find("absolute path"), std::string::npos);
}

TEST(Library, NamesTheReasonOfTheLoader) {
  Error error;
  EXPECT_EQ(load_backend_library("/no/such/library.so", {}, error).status().code(), EDGECORE_ACCESS_FAILED);
  EXPECT_NE(sentence(error).find("/no/such/library.so"), std::string::npos);
}

TEST(Library, RefusesALibraryThatIsNoBackend) {
  Error error;
  EXPECT_EQ(load_backend_library(NO_BACKEND, {}, error).status().code(), EDGECORE_NOT_FOUND);
  EXPECT_NE(sentence(error).find("edgecore_backend_v0"), std::string::npos);
}

TEST(Library, RefusesAnotherInterfaceVersionNamingBoth) {
  Error error;
  EXPECT_EQ(load_backend_library(OTHER_VERSION_BACKEND, {}, error).status().code(), EDGECORE_NOT_SUPPORTED);
  EXPECT_NE(sentence(error).find("0.99"), std::string::npos) << sentence(error);
  EXPECT_NE(sentence(error).find("0." + std::to_string(EDGECORE_ABI_MINOR)), std::string::npos) << sentence(error);
  EXPECT_NE(sentence(error).find(OTHER_VERSION_BACKEND), std::string::npos) << sentence(error);
}

TEST(Library, RefusesAnotherBackendId) {
  Error error;
  EXPECT_EQ(load_backend_library(TOY_BACKEND, "XnnpackBackend", error).status().code(), EDGECORE_INVALID_ARGUMENT);
  EXPECT_NE(sentence(error).find("ToyBackend"), std::string::npos);
}

TEST(Library, LoadsKernels) {
  Error error;
  const auto library = load_kernel_library(TOY_KERNELS, error);
  ASSERT_TRUE(library.ok()) << sentence(error);
  EXPECT_EQ(StringView((*library)->package), StringView("toy"));
}

TEST(Library, RefusesALibraryThatHasNoKernels) {
  Error error;
  EXPECT_EQ(load_kernel_library(NO_BACKEND, error).status().code(), EDGECORE_NOT_FOUND);
  EXPECT_NE(sentence(error).find("edgecore_kernels_v0"), std::string::npos) << sentence(error);
}

}  // namespace
}  // namespace edgecore
