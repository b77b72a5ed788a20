#include "host/backends.h"

#include <gtest/gtest.h>

#include <string>

#include "error_text.h"
#include "host/library.h"

namespace edgecore {
namespace {

edgecore_option option(const char *name, uint32_t type) {
  edgecore_option result = {};
  result.name = {name, std::char_traits<char>::length(name)};
  result.type = type;
  result.value.i = 3;
  return result;
}

TEST(Backends, ALibraryHasOneDriverPerProcess) {
  Error error;
  const edgecore_backend *table = *load_backend_library(TOY_BACKEND, {}, error);
  const auto driver = driver_of(table, error);
  ASSERT_TRUE(driver.ok());
  EXPECT_EQ(*driver_of(table, error), *driver);
}

TEST(Backends, OptionsAreCheckedAgainstTheTableOfTheBackend) {
  Error error;
  const edgecore_backend *table = *load_backend_library(TOY_BACKEND, {}, error);
  edgecore_option good[] = {option("offset", EDGECORE_OPTION_INT), option("together", EDGECORE_OPTION_INT)};
  ASSERT_TRUE(check_options(table, EDGECORE_OPTION_AT_LOAD, good, error).ok());
  EXPECT_EQ(good[0].type, EDGECORE_OPTION_FLOAT);
  EXPECT_EQ(good[0].value.d, 3.0);

  edgecore_option unknown[] = {option("ofset", EDGECORE_OPTION_INT)};
  EXPECT_EQ(check_options(table, EDGECORE_OPTION_AT_LOAD, unknown, error).code(), EDGECORE_INVALID_ARGUMENT);
  EXPECT_NE(text_of(error).find("'ofset'"), std::string::npos);
  EXPECT_NE(text_of(error).find("offset, together"), std::string::npos);

  edgecore_option mistyped[] = {option("together", EDGECORE_OPTION_STRING)};
  EXPECT_EQ(check_options(table, EDGECORE_OPTION_AT_LOAD, mistyped, error).code(), EDGECORE_INVALID_ARGUMENT);
  EXPECT_NE(text_of(error).find("of type int"), std::string::npos);
}

}  // namespace
}  // namespace edgecore
