// Tests options, weights and state of a backend in one program, and the check of a blob's compatibility string.
#include <gtest/gtest.h>

#include "edgecore/module.h"
#include "error_text.h"
#include "null_backend.h"
#include "pte_builder.h"

namespace edgecore {
namespace {

// Builds a program whose methods compute y = delegate(x) with x and y of shape [2]. The methods are "prefill" and
// "decode", or "forward" if the program has metadata with a compatibility string. With `shares_state`, the metadata
// states that the methods share the buffer "sum".
std::vector<uint8_t> program(uint32_t flags, const std::string &compatibility = "", bool shares_state = false) {
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
  if (shares_state) pte.shared_state = {"sum"};
  if (!compatibility.empty() || shares_state) pte.add_meta({}, compatibility, std::vector<uint8_t>(32));
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

TEST(ModuleBackends, MethodsShareStateIfTheFileSaysSo) {
  for (const bool shared : {true, false}) {
    Opened chat(program(kNullState, "", shared));
    ASSERT_TRUE(chat.ok) << text_of(chat.error);
    EXPECT_EQ(chat.module.method(0).shares_state(), shared);
    EXPECT_EQ(chat.run("prefill", 1, 2), (Floats{2 + 3, 4 + 3}));
    EXPECT_EQ(chat.run("decode", 1, 1)[0], shared ? 2 + 5 : 2 + 2);
    ASSERT_TRUE(chat.module.reset(chat.error).ok());
    EXPECT_EQ(chat.run("decode", 1, 1)[0], 2 + 2);
  }
}

TEST(ModuleBackends, SessionsShareWeightsAndHaveStateOfTheirOwn) {
  const uint64_t packed = null_backend_packed();
  const uint64_t handles = null_backend_live_handles();
  {
    Module session;
    Error error;
    const auto run = [&](Module &module) {
      std::vector<Tensor> outputs;
      EXPECT_TRUE(module.run("decode", {Tensor::of<float>({2}, {1, 1})}, outputs, error).ok()) << text_of(error);
      return outputs.empty() ? 0 : outputs[0].values<float>()[0];
    };
    {
      Opened first(program(kNullState | kNullWeights, "", true));
      ASSERT_TRUE(first.ok) << text_of(first.error);
      EXPECT_EQ(run(first.module), 10 + 2);
      ASSERT_TRUE(first.module.new_session(session, error).ok()) << text_of(error);
      EXPECT_EQ(run(session), 10 + 2);
      EXPECT_EQ(run(session), 10 + 4);
      EXPECT_EQ(run(first.module), 10 + 4);
      ASSERT_TRUE(first.module.reset(error).ok());
      EXPECT_EQ(run(session), 10 + 6);
      std::vector<uint8_t> state;
      ASSERT_TRUE(session.export_state(state, error).ok()) << text_of(error);
      ASSERT_TRUE(first.module.import_state({state.data(), state.size()}, error).ok()) << text_of(error);
      EXPECT_EQ(run(first.module), 10 + 8);
      Module third;
      ASSERT_TRUE(session.new_session(third, error).ok()) << text_of(error);
      EXPECT_EQ(run(third), 10 + 2);
    }
    EXPECT_EQ(run(session), 10 + 8);  // the session works after the first module is destroyed
    EXPECT_EQ(null_backend_packed(), packed + 1);
  }
  EXPECT_LE(null_backend_live_handles(), handles + 1);  // the driver lives as long as the process
}

TEST(ModuleBackends, ASessionNeedsAnOpenFile) {
  Module module, session;
  Error error;
  EXPECT_EQ(module.new_session(session, error).code(), EDGECORE_INVALID_STATE);
  const std::vector<uint8_t> bytes = program(0);
  ASSERT_TRUE(module.open({bytes.data(), bytes.size()}, error).ok());
  ASSERT_TRUE(module.new_session(session, error).ok()) << text_of(error);
  EXPECT_FALSE(session.is_method_loaded("forward"));
}

TEST(ModuleBackends, AStateSetIsDestroyedAfterItsInstancesAndBeforeItsProgram) {
  static std::string order;
  static edgecore_backend table;
  table = *null_backend(0);
  table.instance_destroy = [](edgecore_instance *handle) {
    order += "instance ";
    null_backend(0)->instance_destroy(handle);
  };
  table.state_set_destroy = [](edgecore_state_set *handle) {
    order += "state_set ";
    null_backend(0)->state_set_destroy(handle);
  };
  table.program_close = [](edgecore_program *handle) {
    order += "program";
    null_backend(0)->program_close(handle);
  };
  {
    const std::vector<uint8_t> bytes = program(kNullState, "", true);
    Module module, session;
    Error error;
    ASSERT_TRUE(module.open({bytes.data(), bytes.size()}, error).ok() && module.add_backend(&table, {}, error).ok() &&
                module.load_methods({}, error).ok() && module.new_session(session, error).ok())
        << text_of(error);
  }
  EXPECT_EQ(order, "instance instance state_set instance instance state_set program");
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
