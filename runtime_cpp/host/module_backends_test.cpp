// Tests options, weights and state that a backend keeps for a program, and the check of a blob's compatibility string.
#include <gtest/gtest.h>

#include "edgecore/module.h"
#include "error_text.h"
#include "null_backend.h"
#include "pte_builder.h"

namespace edgecore {
namespace {

// Builds a program whose methods compute y = delegate(x) with x and y of shape [2]. The methods are "prefill" and
// "decode", or "forward" if the program has metadata with a compatibility string.
std::vector<uint8_t> program(uint32_t flags, const std::string &compatibility = "") {
  NullBlob blob;
  blob.flags = flags;
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&blob);
  PteBuilder pte;
  pte.methods =
      compatibility.empty() ? std::vector<std::string>{"prefill", "decode"} : std::vector<std::string>{"forward"};
  const int32_t x = pte.add_tensor({2}), y = pte.add_tensor({2});
  pte.delegate(pte.add_delegate("NullBackend", std::vector<uint8_t>(bytes, bytes + sizeof(blob))), {x, y});
  pte.inputs = {x};
  pte.outputs = {y};
  if ((flags & kNullWeights) != 0) {
    const float weights = 5;
    const uint8_t *data = reinterpret_cast<const uint8_t *>(&weights);
    pte.add_named_data("null.weights", std::vector<uint8_t>(data, data + sizeof(weights)));
  }
  if (!compatibility.empty()) pte.add_meta({}, compatibility, std::vector<uint8_t>(32));
  return pte.finish();
}

class Opened {
 public:
  explicit Opened(const std::vector<uint8_t> &bytes, std::vector<edgecore_option> options = {}) {
    static const edgecore_backend *const table = null_backend(0);
    const Span<const edgecore_option> load_options(options.data(), options.size());
    ok = module.open({bytes.data(), bytes.size()}, error).ok() && module.add_backend(table, load_options, error).ok() &&
         module.load_methods({}, error).ok();
  }
  std::vector<float> run(const char *method, float a, float b) {
    Tensor input(6, {2});
    float *data = static_cast<float *>(input.data());
    data[0] = a;
    data[1] = b;
    std::vector<Tensor> outputs;
    EXPECT_TRUE(module.run(method, {input}, outputs, error).ok()) << text_of(error);
    if (outputs.empty()) return {};
    const float *out = static_cast<const float *>(outputs[0].data());
    return {out, out + 2};
  }

  bool set(const edgecore_option &option) { return module.set_options("NullBackend", {&option, 1}, error).ok(); }

  Module module;
  Error error;
  bool ok;
};

edgecore_option option(const char *name, uint32_t type, double number) {
  edgecore_option option = {};
  option.name = {name, strlen(name)};
  option.type = type;
  if (type == EDGECORE_OPTION_FLOAT) option.value.d = number;
  if (type != EDGECORE_OPTION_FLOAT) option.value.i = static_cast<int64_t>(number);
  return option;
}

using Floats = std::vector<float>;

TEST(ModuleBackends, MethodsShareStateThatCanBeResetExportedAndImported) {
  Opened chat(program(kNullState));
  ASSERT_TRUE(chat.ok) << text_of(chat.error);
  EXPECT_EQ(chat.run("prefill", 1, 2), (Floats{2 + 3, 4 + 3}));
  EXPECT_EQ(chat.run("decode", 1, 1), (Floats{2 + 5, 2 + 5}));
  std::vector<uint8_t> state;
  ASSERT_TRUE(chat.module.export_state("NullBackend", state, chat.error).ok()) << text_of(chat.error);
  EXPECT_EQ(chat.run("decode", 1, 1), (Floats{2 + 7, 2 + 7}));
  ASSERT_TRUE(chat.module.import_state("NullBackend", {state.data(), state.size()}, chat.error).ok());
  EXPECT_EQ(chat.run("decode", 1, 1), (Floats{2 + 7, 2 + 7}));
  ASSERT_TRUE(chat.module.reset(chat.error).ok());
  EXPECT_EQ(chat.run("prefill", 1, 2), (Floats{2 + 3, 4 + 3}));

  Opened other(program(kNullState));  // another program has state of its own
  EXPECT_EQ(other.run("decode", 0, 0), (Floats{0, 0}));
  ASSERT_TRUE(other.module.import_state("NullBackend", {state.data(), state.size()}, other.error).ok());
  EXPECT_EQ(other.run("decode", 0, 0), (Floats{5, 5}));

  EXPECT_FALSE(chat.module.import_state("NullBackend", {state.data(), 1}, chat.error).ok());
  EXPECT_EQ(text_of(chat.error), "a state of 1 bytes is not of this program.");
  EXPECT_EQ(chat.module.export_state("Other", state, chat.error).code(), EDGECORE_NOT_FOUND);
  EXPECT_EQ(text_of(chat.error), "The backend 'Other' was not added to this program.");
}

TEST(ModuleBackends, WeightsArePackedOnceForAllMethods) {
  const uint64_t before = null_backend_packed();
  Opened opened(program(kNullWeights));
  ASSERT_TRUE(opened.ok) << text_of(opened.error);
  EXPECT_EQ(null_backend_packed() - before, 1u);
  EXPECT_EQ(opened.run("prefill", 1, 2), (Floats{10, 20}));
  EXPECT_EQ(opened.run("decode", 1, 2), (Floats{10, 20}));
}

TEST(ModuleBackends, OptionsAreSetAtLoadAndWhileLoaded) {
  Opened opened(program(0), {option("gain", EDGECORE_OPTION_INT, 3)});
  ASSERT_TRUE(opened.ok) << text_of(opened.error);
  EXPECT_EQ(opened.run("decode", 1, 2), (Floats{6, 12}));
  ASSERT_TRUE(opened.set(option("gain", EDGECORE_OPTION_FLOAT, 0.5)));
  EXPECT_EQ(opened.run("prefill", 1, 2), (Floats{1, 2}));
  EXPECT_EQ(opened.run("decode", 1, 2), (Floats{1, 2}));

  EXPECT_FALSE(opened.set(option("name", EDGECORE_OPTION_STRING, 0)));
  EXPECT_EQ(text_of(opened.error),
            "The backend NullBackend has no option 'name' that can be set after loading; it has: gain.");
  EXPECT_FALSE(opened.set(option("gain", EDGECORE_OPTION_BOOL, 1)));
  EXPECT_EQ(text_of(opened.error), "The option 'gain' of the backend NullBackend is of type float; got bool.");
  Opened unknown(program(0), {option("speed", EDGECORE_OPTION_INT, 3)});
  EXPECT_FALSE(unknown.ok);
  EXPECT_EQ(text_of(unknown.error), "The backend NullBackend has no option 'speed' for loading; it has: gain, name.");
}

TEST(ModuleBackends, CompatibilityIsOptimalWorksOrIsRefused) {
  testing::internal::CaptureStderr();
  EXPECT_TRUE(Opened(program(0, "null 1")).ok);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  EXPECT_TRUE(Opened(program(0, "null 0")).ok);
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "edgecore warning: Method 'forward': delegate 0, compiled for 'null 0', works on backend 'NullBackend', and "
      "would do better if the model were compiled again: 'null 1' computes faster.\n");
  const Opened refused(program(0, "null 2"));
  EXPECT_FALSE(refused.ok);
  EXPECT_NE(text_of(refused.error).find("this backend runs 'null 1'"), std::string::npos) << text_of(refused.error);
}

}  // namespace
}  // namespace edgecore
