#include "session.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "context_model.h"

namespace edgecore::qnn {
namespace {

using edgecore::backend::fail;

constexpr const char *kReinstall = "To reinstall it: pip install --force-reinstall onnxruntime-qnn";
constexpr const char *kCompileAgain = "Compile the model again with the installed onnxruntime-qnn";

// The values that the provider documents for its option htp_performance_mode. The provider ignores other values.
constexpr std::string_view kPerformanceModes[] = {
    "default",     "burst",           "sustained_high_performance", "high_performance",   "balanced", "low_balanced",
    "power_saver", "low_power_saver", "high_power_saver",           "extreme_power_saver"};

// True while the process ends: static objects of ONNX Runtime's libraries may be destroyed already.
std::atomic<bool> is_exiting{false};

// The process's ONNX Runtime environment, and the devices of the QNN provider in it. Neither is released: the
// provider's libraries stay loaded until the process ends, as ONNX Runtime recommends.
struct Environment {
  OrtEnv *env = nullptr;
  std::vector<const OrtEpDevice *> devices;
};

std::vector<const OrtEpDevice *> qnn_devices(const OrtApi &api, const OrtEnv *env) {
  const OrtEpDevice *const *devices = nullptr;
  size_t count = 0;
  api.check(api.GetEpDevices(env, &devices, &count), EDGECORE_INTERNAL, "ONNX Runtime cannot list its devices",
            kReinstall);
  std::vector<const OrtEpDevice *> result;
  for (size_t i = 0; i < count; ++i) {
    if (std::string_view(api.EpDevice_EpName(devices[i])) == kProvider) result.push_back(devices[i]);
  }
  return result;
}

// A log function that drops all messages: ONNX Runtime and the provider log warnings about features that a session does
// not use, and a failed call states its reason in the returned status.
void ignore_log(void *, int32_t, const char *, const char *, const char *, const char *) {}

Environment make_environment(const Settings &settings) {
  const OrtApi &api = ort();
  Environment result;
  api.check(api.CreateEnvWithCustomLogger(ignore_log, nullptr, kOrtLogError, "edgecore", &result.env),
            EDGECORE_INTERNAL, "ONNX Runtime cannot create its environment", kReinstall);
  // The application may have registered the provider already, because a process has only one ONNX Runtime environment.
  result.devices = qnn_devices(api, result.env);
  if (result.devices.empty()) {
    api.check(api.RegisterExecutionProviderLibrary(result.env, kProvider, settings.provider.c_str()),
              EDGECORE_NOT_SUPPORTED, "ONNX Runtime " + api.version + " cannot use " + settings.provider, kReinstall);
    result.devices = qnn_devices(api, result.env);
  }
  if (result.devices.empty()) {
    fail(EDGECORE_NOT_SUPPORTED, "%s finds no device on this machine. %s", settings.provider.c_str(), kReinstall);
  }
  // Exit handlers run in reverse order of registration: this one runs before the handlers of ONNX Runtime's libraries,
  // which were opened above.
  static const struct AtExit {
    ~AtExit() { is_exiting = true; }
  } at_exit;
  return result;
}

// Returns the ONNX Runtime environment of the process; the first call creates it.
const Environment &environment(const Settings &settings) {
  static std::mutex mutex;
  static const Environment *made = nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  open_ort(settings.ort);  // open_ort fails if this process has opened another ONNX Runtime
  if (made == nullptr) made = new Environment(make_environment(settings));
  return *made;
}

SessionOptions make_options(const Settings &settings, const Payload &payload) {
  const Environment &process = environment(settings);
  const OrtApi &api = ort();
  const auto check = [&](OrtStatus *status) {
    api.check(status, EDGECORE_NOT_SUPPORTED, "ONNX Runtime " + api.version + " does not take an option of a session",
              kReinstall);
  };
  OrtSessionOptions *created = nullptr;
  check(api.CreateSessionOptions(&created));
  SessionOptions options(created);
  check(api.SetIntraOpNumThreads(created, 1));
  check(api.SetSessionGraphOptimizationLevel(created, kOrtNoOptimization));
  // Without this entry, ONNX Runtime would fall back to another provider for nodes that QNN refuses.
  check(api.AddSessionConfigEntry(created, "session.disable_cpu_ep_fallback", "1"));
  if (!settings.profile.empty()) check(api.EnableProfiling(created, settings.profile.c_str()));

  // These options do not change a compiled context, so a process may load contexts for different SoCs. (When QNN
  // compiles a float32 model, options of earlier sessions in the process decide whether the model computes with
  // float16.)
  const std::string soc = std::to_string(payload.soc_id);
  std::vector<const char *> keys = {"backend_type", "soc_model"}, values = {"htp", soc.c_str()};
  if (const std::string &mode = settings.performance_mode; !mode.empty()) {
    if (std::find(std::begin(kPerformanceModes), std::end(kPerformanceModes), mode) == std::end(kPerformanceModes)) {
      fail(EDGECORE_INVALID_ARGUMENT,
           "the performance mode '%s' is unknown: use burst, sustained_high_performance, high_performance, balanced, "
           "low_balanced, default, high_power_saver, power_saver, low_power_saver or extreme_power_saver",
           mode.c_str());
    }
    keys.push_back("htp_performance_mode");
    values.push_back(mode.c_str());
  }
  api.check(
      api.SessionOptionsAppendExecutionProvider_V2(created, process.env, process.devices.data(), process.devices.size(),
                                                   keys.data(), values.data(), keys.size()),
      EDGECORE_NOT_SUPPORTED, "the QNN provider does not take the options for " + payload.soc, kReinstall);
  return options;
}

}  // namespace

void Session::Close::operator()(OrtSession *session) const {
  if (!is_exiting) ort().ReleaseSession(session);
}

Session::Session(const Settings &settings, const Payload &payload) {
  const SessionOptions options = make_options(settings, payload);
  const OrtEnv *env = environment(settings).env;
  const std::string model = context_model(payload);
  OrtSession *created = nullptr;
  // QNN's libraries use global state while they load a context, so only one context is loaded at a time.
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  ort().check(ort().CreateSessionFromArray(env, model.data(), model.size(), options.get(), &created),
              EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "QNN cannot load the context binary for " + payload.soc,
              kCompileAgain);
  session_.reset(created);
  for (const Argument &input : payload.inputs) input_names_.push_back(input.name.c_str());
  for (const Argument &output : payload.outputs) output_names_.push_back(output.name.c_str());
}

void Session::run(const std::vector<Value> &inputs, const std::vector<Value> &outputs) const {
  std::vector<const OrtValue *> in;
  std::vector<OrtValue *> out;
  for (const Value &value : inputs) in.push_back(value.get());
  for (const Value &value : outputs) out.push_back(value.get());
  ort().check(ort().Run(session_.get(), nullptr, input_names_.data(), in.data(), in.size(), output_names_.data(),
                        out.size(), out.data()),
              EDGECORE_INTERNAL, "QNN cannot run the model", kCompileAgain);
}

Value make_value(const Argument &argument, void *data) {
  static OrtMemoryInfo *const info = [] {
    OrtMemoryInfo *created = nullptr;
    ort().check(ort().CreateCpuMemoryInfo(kOrtArenaAllocator, kOrtDefaultMemory, &created), EDGECORE_INTERNAL,
                "ONNX Runtime cannot describe memory of the host", kReinstall);
    return created;
  }();
  OrtValue *created = nullptr;
  ort().check(
      ort().CreateTensorWithDataAsOrtValue(info, data, static_cast<size_t>(argument.bytes), argument.shape.data(),
                                           argument.shape.size(), argument.type.onnx, &created),
      EDGECORE_INTERNAL, "ONNX Runtime cannot make a tensor over memory of the host", kReinstall);
  return Value(created);
}

}  // namespace edgecore::qnn
