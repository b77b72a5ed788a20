// Tests the declarations in ort_api.h, and opening a library. Each function is called and its effect is checked, so
// that a wrong index in the table is detected.
#include "ort_api.h"

#include <cstdlib>
#include <filesystem>

#include "context_model.h"
#include "session.h"
#include "test_support.h"

namespace edgecore::qnn {
namespace {

using test::expect_failure;
using test::Files;
using test::find_files;

constexpr int32_t kCode = EDGECORE_INTERNAL;

void expect_status(OrtStatus *status, const std::string &part) {
  expect_failure(kCode, part, [&] { ort().check(status, kCode, "a call", "Nothing to do"); });
}

TEST(DeviceOrtApi, AnotherLibraryIsRefused) {
  Files files;
  if (!find_files(&files)) return;
  open_ort(files.ort);
  expect_failure(EDGECORE_NOT_SUPPORTED, "cannot open /another.so as well", [] { open_ort("/another.so"); });
}

TEST(DeviceOrtApi, EachFunctionDoesWhatItsNameSays) {
  Files files;
  if (!find_files(&files)) return;
  const OrtApi &api = open_ort(files.ort);
  EXPECT_EQ(api.version.substr(0, 2), "1.");

  OrtEnv *env = nullptr;
  int messages = 0;
  const OrtLog log = [](void *user, int32_t, const char *, const char *, const char *, const char *) {
    ++*static_cast<int *>(user);
  };
  ASSERT_EQ(api.CreateEnvWithCustomLogger(log, &messages, 4, "test", &env), nullptr);
  const OrtEpDevice *const *devices = nullptr;
  size_t count = 0;
  ASSERT_EQ(api.GetEpDevices(env, &devices, &count), nullptr);
  ASSERT_GE(count, 1u);
  EXPECT_STREQ(api.EpDevice_EpName(devices[0]), "CPUExecutionProvider");
  expect_status(api.RegisterExecutionProviderLibrary(env, "none", "/nowhere.so"), "/nowhere.so");

  OrtSessionOptions *created = nullptr;
  ASSERT_EQ(api.CreateSessionOptions(&created), nullptr);
  const SessionOptions options(created);
  EXPECT_EQ(api.SetIntraOpNumThreads(created, 1), nullptr);
  EXPECT_EQ(api.SetSessionGraphOptimizationLevel(created, kOrtNoOptimization), nullptr);
  expect_status(api.SetSessionGraphOptimizationLevel(created, -5), "graph_optimization_level");
  EXPECT_EQ(api.AddSessionConfigEntry(created, "session.disable_cpu_ep_fallback", "1"), nullptr);
  expect_status(api.AddSessionConfigEntry(created, "", "1"), "key");
  const char *key = "key", *value = "value";
  expect_status(api.SessionOptionsAppendExecutionProvider_V2(created, env, nullptr, 0, &key, &value, 1), "evice");
  OrtSession *session = nullptr;
  expect_status(api.CreateSessionFromArray(env, "garbage", 7, created, &session), "rotobuf");
  EXPECT_EQ(session, nullptr);

  OrtMemoryInfo *memory = nullptr;
  ASSERT_EQ(api.CreateCpuMemoryInfo(kOrtArenaAllocator, kOrtDefaultMemory, &memory), nullptr);
  const MemoryInfo owner(memory);
  float numbers[6] = {};
  const int64_t shape[] = {2, 3};
  OrtValue *tensor = nullptr;
  expect_status(api.CreateTensorWithDataAsOrtValue(memory, numbers, 23, shape, 2, 1, &tensor), "23");
  ASSERT_EQ(api.CreateTensorWithDataAsOrtValue(memory, numbers, 24, shape, 2, 1, &tensor), nullptr);
  const Value value_owner(tensor);
}

// Loads and runs a context. The profile that ONNX Runtime writes must list one node of QNN.
TEST(DeviceSession, TheProfileHasOneNodeOfQnn) {
  Files files;
  if (!find_files(&files)) return;
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "edgecore-qnn-profile";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const Payload payload = read_blob(test::view(files.blob));
  std::vector<float> in(payload.inputs[0].bytes / 4), out(payload.outputs[0].bytes / 4);
  {
    const Session session({files.ort, files.provider, (folder / "run").string(), "burst"}, payload);
    std::vector<Value> inputs, outputs;
    inputs.push_back(make_value(payload.inputs[0], in.data()));
    outputs.push_back(make_value(payload.outputs[0], out.data()));
    session.run(inputs, outputs);
  }
  const std::filesystem::directory_iterator found(folder);
  ASSERT_NE(found, std::filesystem::end(found));
  const std::string profile = test::read_file(found->path().string());
  size_t nodes = 0;
  for (size_t at = 0; (at = profile.find("_kernel_time", at)) != std::string::npos; ++at) ++nodes;
  EXPECT_EQ(nodes, 1u) << profile;
  EXPECT_NE(profile.find(R"("provider" : "QNNExecutionProvider")"), std::string::npos) << profile;
}

}  // namespace
}  // namespace edgecore::qnn
