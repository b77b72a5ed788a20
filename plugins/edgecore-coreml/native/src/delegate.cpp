// The Core ML backend on systems without Core ML: it says where a file with a Core ML delegate runs, and loads nothing.
#include "edgecore/backend.hpp"

#ifndef EDGECORE_COREML_VERSION
#define EDGECORE_COREML_VERSION "0"
#endif

namespace edgecore_coreml {
namespace {

using edgecore::backend::Arguments;
using edgecore::backend::fail;
using edgecore::backend::Host;
using edgecore::backend::Memory;
using edgecore::backend::Options;

struct Driver {
  explicit Driver(const Host &) {}

  // Checks the compatibility string that preprocess.py writes: "coreml-package 1 TARGET".
  int32_t check_compatibility(std::string_view text) const {
    constexpr std::string_view kFormat = "coreml-package 1 ";
    if (text.substr(0, kFormat.size()) == kFormat) return EDGECORE_COMPATIBLE;
    fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
         "'%.*s' is not a format that this release of edgecore-coreml reads: install the release that compiled it",
         static_cast<int>(text.size()), text.data());
  }
};

struct Program {
  Program(Driver &, const Host &, const Options &) {}
};

class Delegate {
 public:
  Delegate(Program &, const Host &, const edgecore_delegate_info &) {
    fail(EDGECORE_NOT_SUPPORTED,
         "the file has a model for Apple's Core ML, which needs macOS, iOS, iPadOS or tvOS: run it on a Mac, or in an "
         "app that links a delegate for CoreMLBackend");
  }

  uint64_t argument_count() const noexcept { return 0; }
};

// No delegate is ever made, so no instance is either.
class Instance {
 public:
  Instance(Delegate &, const Host &) {}
  std::vector<edgecore_memory_need> prepare(const Arguments &) { return {}; }
  void execute(const Arguments &, const Memory &) {}
};

}  // namespace
}  // namespace edgecore_coreml

extern "C" EDGECORE_BACKEND(coreml) {
  using namespace edgecore_coreml;
  static const edgecore_backend table = edgecore::backend::make_table<Driver, Program, Delegate, Instance>(
      {"CoreMLBackend", "edgecore-coreml", EDGECORE_COREML_VERSION, EDGECORE_NO_THREADS | EDGECORE_VALIDATES_BLOBS});
  return &table;
}
