// A backend for tests of host layers: output = input + offset, float32, computed through parallel_for. This file
// includes only the public headers, so that tests in Python can compile it too. -DTOY_MINOR=n makes the backend claim
// another interface version.
#include <atomic>
#include <chrono>
#include <thread>

#include "edgecore/backend.hpp"

#ifndef TOY_MINOR
#define TOY_MINOR EDGECORE_ABI_MINOR
#endif

namespace toy {
namespace {

using namespace edgecore::backend;

const edgecore_option_spec kOptions[] = {
    option("offset", EDGECORE_OPTION_FLOAT, EDGECORE_OPTION_AT_LOAD, "Added."),
    option("together", EDGECORE_OPTION_INT, EDGECORE_OPTION_AT_LOAD,
           "execute returns when this many executions are running at the same time in the process."),
    option("log", EDGECORE_OPTION_BOOL, EDGECORE_OPTION_AT_LOAD,
           "Each part of a loop logs a message, on its own thread.")};

std::atomic<int64_t> under_way{0};

struct Driver {
  explicit Driver(const Host &host) { host.log(EDGECORE_LOG_INFO, "toy driver created"); }
};

struct Program {
  Program(Driver &, const Host &, const Options &options)
      : offset(static_cast<float>(options.number("offset", 1))),
        together(options.integer("together", 1)),
        logs(options.integer("log", 0) != 0) {}
  float offset;
  int64_t together;
  bool logs;
};

struct Delegate {
  Delegate(Program &owner, const Host &, const edgecore_delegate_info &info) : program(owner) {
    if (info.blob.size != 4 || std::memcmp(info.blob.data, "toy1", 4) != 0) {
      fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "the blob is no toy1.");
    }
  }
  uint64_t argument_count() const noexcept { return 2; }
  Program &program;
};

class Instance {
 public:
  Instance(Delegate &delegate, const Host &host) : program_(delegate.program), host_(host) {}

  std::vector<edgecore_memory_need> prepare(const Arguments &args) {
    const edgecore_dl_tensor &input = args.tensor(0).dl;
    args.resize(1, input.shape, input.ndim);
    return {};
  }

  void execute(const Arguments &args, const Memory &) {
    // Executions that wait for no other execution take no ticket, so that executions that wait for each other have
    // consecutive tickets.
    const int64_t together = program_.together;
    const int64_t ticket = together > 1 ? ++under_way : 0;
    const int64_t awaited = (ticket + together - 1) / together * together;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (under_way.load() < awaited) {
      if (std::chrono::steady_clock::now() > deadline) fail(EDGECORE_INTERNAL, "the others did not come.");
      std::this_thread::yield();
    }
    const edgecore_dl_tensor &input = args.tensor(0).dl;
    const float *from = args.data<float>(0);
    float *to = args.data<float>(1);
    uint64_t count = 1;
    for (int32_t i = 0; i < input.ndim; ++i) count *= static_cast<uint64_t>(input.shape[i]);
    host_.parallel_for(count, 0, [&](uint64_t begin, uint64_t end, uint32_t) {
      for (uint64_t i = begin; i < end; ++i) to[i] = from[i] + program_.offset;
      if (program_.logs) host_.log(EDGECORE_LOG_INFO, "toy part computed");
    });
  }

 private:
  Program &program_;
  Host host_;
};

edgecore_backend make_toy_table() {
  edgecore_backend table = make_table<Driver, Program, Delegate, Instance>(
      {"ToyBackend", "edgecore-toy", "1.0", EDGECORE_HOST_THREADS | EDGECORE_VALIDATES_BLOBS}, kOptions);
  table.header.minor = TOY_MINOR;
  return table;
}

}  // namespace
}  // namespace toy

extern "C" EDGECORE_BACKEND(toy) {
  static const edgecore_backend table = toy::make_toy_table();
  return &table;
}
