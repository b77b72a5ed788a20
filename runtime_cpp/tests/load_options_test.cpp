// Tests edgecore/load_options.hpp: options of a load call, and compile specs of a delegate.
#include "edgecore/load_options.hpp"

#include <gtest/gtest.h>

#include "failure_of.h"

namespace {

using namespace edgecore::backend;

edgecore_bytes to_bytes(std::string_view text) { return {reinterpret_cast<const uint8_t *>(text.data()), text.size()}; }

TEST(Options, APathIsAbsoluteOrTheFallback) {
  edgecore_option items[2] = {};
  items[0].name = to_str("library");
  items[0].value.bytes = to_bytes("/opt/acme.so");
  items[1].name = to_str("cache");
  items[1].value.bytes = to_bytes("acme");
  const Options options({items, 2, sizeof(items[0]), 0});
  EXPECT_EQ(options.path("library"), "/opt/acme.so");
  EXPECT_EQ(options.path("missing"), "");
  EXPECT_EQ(options.path("missing", "/tmp"), "/tmp");
  EXPECT_EQ(failure_of([&] { (void)options.path("cache"); }), "the load option cache is no absolute path: acme");
}

TEST(CompileSpec, IsFoundByItsKey) {
  const struct {
    edgecore_compile_spec spec;
    uint64_t of_a_later_version;
  } specs[] = {{{to_str("mode"), to_bytes("fast")}, 0}, {{to_str("units"), {nullptr, 0}}, 0}};
  edgecore_delegate_info info = {};
  EXPECT_EQ(compile_spec(info, "mode"), "");
  info.compile_specs = &specs[0].spec;
  info.compile_spec_count = 2;
  info.compile_spec_stride = sizeof(specs[0]);
  EXPECT_EQ(compile_spec(info, "mode"), "fast");
  EXPECT_EQ(compile_spec(info, "units"), "");
  EXPECT_EQ(compile_spec(info, "other"), "");
}

}  // namespace
