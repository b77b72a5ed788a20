#include "host/library.h"

#include <gtest/gtest.h>

#include <string>

#include "edgecore/module.h"
#include "error_text.h"

namespace edgecore {
namespace {

TEST(Library, LoadsABackendOnce) {
  Error error;
  const auto first = load_backend_library(TOY_BACKEND, "ToyBackend", error);
  ASSERT_TRUE(first.ok()) << text_of(error);
  const auto second = load_backend_library(TOY_BACKEND, {}, error);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(*first, *second);
}

TEST(Library, RefusesARelativePath) {
  Error error;
  EXPECT_EQ(load_backend_library("libtoy.so", {}, error).status().code(), EDGECORE_INVALID_ARGUMENT);
  EXPECT_NE(text_of(error).find("absolute path"), std::string::npos);
}

TEST(Library, NamesTheReasonOfTheLoader) {
  Error error;
  EXPECT_EQ(load_backend_library("/no/such/library.so", {}, error).status().code(), EDGECORE_ACCESS_FAILED);
  EXPECT_NE(text_of(error).find("/no/such/library.so"), std::string::npos);
}

TEST(Library, RefusesALibraryThatIsNoBackend) {
  Error error;
  EXPECT_EQ(load_backend_library(NO_BACKEND, {}, error).status().code(), EDGECORE_NOT_FOUND);
  EXPECT_NE(text_of(error).find("edgecore_backend_v0"), std::string::npos);
}

TEST(Library, RefusesAnotherInterfaceVersionNamingBoth) {
  Error error;
  EXPECT_EQ(load_backend_library(OTHER_VERSION_BACKEND, {}, error).status().code(), EDGECORE_NOT_SUPPORTED);
  EXPECT_NE(text_of(error).find("0.99"), std::string::npos) << text_of(error);
  EXPECT_NE(text_of(error).find("0." + std::to_string(EDGECORE_ABI_MINOR)), std::string::npos) << text_of(error);
  EXPECT_NE(text_of(error).find(OTHER_VERSION_BACKEND), std::string::npos) << text_of(error);
}

TEST(Library, RefusesAnotherBackendId) {
  Error error;
  EXPECT_EQ(load_backend_library(TOY_BACKEND, "XnnpackBackend", error).status().code(), EDGECORE_INVALID_ARGUMENT);
  EXPECT_NE(text_of(error).find("ToyBackend"), std::string::npos);
}

TEST(Library, LoadsKernels) {
  Error error;
  const auto library = load_kernel_library(TOY_KERNELS, error);
  ASSERT_TRUE(library.ok()) << text_of(error);
  EXPECT_EQ(StringView((*library)->package), StringView("toy"));
}

TEST(Library, RefusesALibraryThatHasNoKernels) {
  Error error;
  EXPECT_EQ(load_kernel_library(NO_BACKEND, error).status().code(), EDGECORE_NOT_FOUND);
  EXPECT_NE(text_of(error).find("edgecore_kernels_v0"), std::string::npos) << text_of(error);
}

}  // namespace
}  // namespace edgecore
