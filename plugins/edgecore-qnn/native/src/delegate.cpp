// The QNN backend: loads the context binary in a delegate's blob with ONNX Runtime's QNN provider, and runs it. QNN
// accesses the runtime's own buffers without copies, except inputs with large numbers (see `reduced`).
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "blob.h"
#include "edgecore/backend.hpp"
#include "session.h"

#ifndef EDGECORE_QNN_VERSION
#define EDGECORE_QNN_VERSION "0"
#endif

namespace edgecore::qnn {
namespace {

using edgecore::backend::Arguments;
using edgecore::backend::Event;
using edgecore::backend::fail;
using edgecore::backend::Host;
using edgecore::backend::Memory;
using edgecore::backend::Options;

struct Driver {
  explicit Driver(const Host &) {}

  // Checks the compatibility string that lowering.py writes: "qnn-context 1 SDK SOC". The class Delegate checks the SDK
  // version.
  int32_t check_compatibility(std::string_view text) const {
    return edgecore::backend::check_format(text, "qnn-context 1", "edgecore-qnn");
  }
};

// The load options of one loaded .pte file.
struct Program {
  Program(Driver &, const Host &, const Options &options)
      : settings{options.path("onnxruntime"), options.path("provider"), std::string(options.text("profile", "")),
                 std::string(options.text("performance_mode", ""))},
        sdk(options.text("sdk_version", "")) {}

  const Settings settings;
  const std::string sdk;  // version of the QNN SDK in the provider's package
};

// Throws a Failure if a load option that must name a library is missing.
void check_library(const char *option, const std::string &path) {
  if (!path.empty()) return;
  fail(EDGECORE_NOT_FOUND,
       "the load option %s is missing: pip install onnxruntime onnxruntime-qnn, where Python finds it, or set the "
       "absolute path of the library",
       option);
}

// A loaded context binary, shared by all methods that use the delegate.
class Delegate {
 public:
  Delegate(Program &program, const Host &, const edgecore_delegate_info &info)
      : payload(checked(program, info.blob)), session(settings(program, info), payload) {
    info.release_blob(info.scope);
    payload.context = {};
  }

  uint64_t argument_count() const noexcept { return payload.inputs.size() + payload.outputs.size(); }

  Payload payload;
  const Session session;

 private:
  static Payload checked(const Program &program, edgecore_bytes blob) {
    Payload payload = read_blob(blob);
    check_library("onnxruntime", program.settings.ort);
    check_library("provider", program.settings.provider);
    check_sdk(payload.sdk_build, program.sdk);
    return payload;
  }

  // Returns the program's settings. If no load option sets the performance mode, it comes from the file.
  static Settings settings(const Program &program, const edgecore_delegate_info &info) {
    Settings result = program.settings;
    if (result.performance_mode.empty())
      result.performance_mode = edgecore::backend::compile_spec(info, "performance_mode");
    return result;
  }
};

// The execution state of a delegate in one method: ONNX Runtime's values for its arguments.
class Instance {
 public:
  Instance(Delegate &delegate, const Host &host)
      : delegate_(delegate),
        host_(host),
        inputs_(delegate.payload.inputs.size()),
        outputs_(delegate.payload.outputs.size()),
        reduced_(delegate.payload.inputs.size()),
        bound_(delegate.argument_count(), nullptr) {}

  std::vector<edgecore_memory_need> prepare(const Arguments &args) const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Argument &expected = delegate_.payload.inputs[i];
      args.tensor(i, expected.type.code, expected.type.bits, expected.rank());
      args.check_shape(i, expected.shape);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Argument &expected = delegate_.payload.outputs[i];
      args.tensor(inputs_.size() + i, expected.type.code, expected.type.bits, expected.rank());
      args.resize(inputs_.size() + i, expected.shape.data(), expected.rank());
    }
    return {};  // request no memory from the host: QNN allocates its own
  }

  void execute(const Arguments &args, const Memory &) {
    for (size_t i = 0; i < bound_.size(); ++i) {
      void *data = i < inputs_.size() ? reduced(i, args.data<void>(i)) : args.data<void>(i);
      if (data == bound_[i]) continue;
      const size_t output = i - inputs_.size();
      if (i < inputs_.size()) {
        inputs_[i] = make_value(delegate_.payload.inputs[i], data);
      } else {
        outputs_[output] = make_value(delegate_.payload.outputs[output], data);
      }
      bound_[i] = data;
    }
    const Event event(host_, "QNN", 0);
    delegate_.session.run(inputs_, outputs_);
  }

 private:
  // Returns the memory of an input for QNN: a clamped copy if float16 would turn some of its numbers into infinities.
  void *reduced(size_t input, void *data) {
    const Argument &argument = delegate_.payload.inputs[input];
    const float largest = argument.largest;
    if (largest == 0) return data;
    std::vector<float> &copy = reduced_[input];
    copy.resize(static_cast<size_t>(argument.bytes) / sizeof(float));
    const auto *numbers = static_cast<const float *>(data);
    std::transform(numbers, numbers + copy.size(), copy.begin(), [largest](float number) {
      return std::isfinite(number) ? std::clamp(number, -largest, largest) : number;
    });
    return copy.data();
  }

  const Delegate &delegate_;
  Host host_;
  std::vector<Value> inputs_, outputs_;
  std::vector<std::vector<float>> reduced_;  // clamped copy of each input that has Argument::largest
  std::vector<void *> bound_;                // for each argument, the memory of its OrtValue; null: no OrtValue yet
};

}  // namespace
}  // namespace edgecore::qnn

extern "C" EDGECORE_BACKEND(qnn) {
  using namespace edgecore::qnn;
  static const edgecore_option_spec options[] = {
      edgecore::backend::option(
          "onnxruntime", EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD,
          "Absolute path of libonnxruntime; in Python the default is the one in the package onnxruntime."),
      edgecore::backend::option("provider", EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD,
                                "Absolute path of libonnxruntime_providers_qnn; in Python the default is the one in "
                                "the package onnxruntime-qnn."),
      edgecore::backend::option("sdk_version", EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD,
                                "Version of the QNN SDK in the provider's package, such as 2.51.0; in Python the "
                                "default is what the package states."),
      edgecore::backend::option("performance_mode", EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD,
                                "Clocks of the NPU while the model runs, such as burst or power_saver; default: those "
                                "of the option performance_mode when the file was compiled."),
      edgecore::backend::option("profile", EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD,
                                "Start of the path of ONNX Runtime's profile, which is written when the file is "
                                "closed; default: no profile.")};
  // Set VENDOR_THREADS, because Qualcomm's emulator starts threads. (On a device, the NPU does the work.)
  static const edgecore_backend table = edgecore::backend::make_table<Driver, Program, Delegate, Instance>(
      {"QnnBackend", "edgecore-qnn", EDGECORE_QNN_VERSION,
       EDGECORE_VENDOR_THREADS | EDGECORE_NEEDS_TRUSTED_BLOBS | EDGECORE_OWN_HEAP},
      options);
  return &table;
}
