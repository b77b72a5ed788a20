// The Ethos-U backend on the host: checks the blob of a delegate, which was compiled for an NPU, and computes the
// delegate's results with the TOSA graph that the file stores beside the blob. The results equal the NPU's bit by bit,
// provided that Vela and the NPU implement TOSA correctly.
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "blob.h"
#include "edgecore/backend.hpp"
#include "simulator.h"

#ifndef EDGECORE_ETHOSU_VERSION
#define EDGECORE_ETHOSU_VERSION "0"
#endif

namespace edgecore::ethosu {
namespace {

using edgecore::backend::Arguments;
using edgecore::backend::Event;
using edgecore::backend::fail;
using edgecore::backend::Host;
using edgecore::backend::Memory;
using edgecore::backend::Options;

// The TOSA simulators (shared libraries) that this process has opened, by path.
class Driver {
 public:
  explicit Driver(const Host &) {}

  // Checks the compatibility string that lowering.py writes: "ethosu-vela 1 TARGET".
  int32_t check_compatibility(std::string_view text) const {
    return edgecore::backend::check_format(text, "ethosu-vela 1", "edgecore-ethosu");
  }

  const Simulator &simulator(const std::string &path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = simulators_.find(path);
    return found != simulators_.end() ? found->second : simulators_.emplace(path, open_simulator(path)).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Simulator> simulators_;
};

struct Program {
  Program(Driver &owner, const Host &, const Options &options)
      : driver(owner), simulator_path(options.path("simulator")) {}

  Driver &driver;
  const std::string simulator_path;
};

// Returns the key of the named data with the TOSA graph from which a blob was compiled. The key contains a hash of the
// blob.
std::string tosa_key(edgecore_bytes blob) {
  uint64_t sum = 0xcbf29ce484222325;
  edgecore::backend::ByteReader reader(blob);
  while (reader.left() >= sizeof(uint64_t)) {
    sum = (sum ^ reader.number<uint64_t>()) * 0x100000001b3;
    sum ^= sum >> 32;
  }
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(sum));
  return std::string("ethosu-tosa-") + digits;
}

Blob checked_blob(edgecore_bytes bytes) {
  Blob blob = {};
  Problem problem;
  if (read_blob(bytes, blob, problem)) return blob;
  const edgecore_str text = problem.sentence.text();
  fail(problem.code, "%.*s", static_cast<int>(text.size), text.data);
}

edgecore_bytes stored_tosa(const Host &host, edgecore_bytes blob) {
  if (const auto tosa = host.find_named_data(tosa_key(blob))) return *tosa;
  fail(EDGECORE_NOT_FOUND,
       "the file was made for a device and holds no TOSA graph to run here: compile it with include_tosa=True");
}

class Delegate {
 public:
  Delegate(Program &program, const Host &host, const edgecore_delegate_info &info)
      : Delegate(checked_blob(info.blob), program, host, info) {}

  uint64_t argument_count() const noexcept { return graph.inputs().size() + graph.outputs().size(); }

  Graph graph;

 private:
  Delegate(const Blob &blob, Program &program, const Host &host, const edgecore_delegate_info &info)
      : graph(program.driver.simulator(program.simulator_path), stored_tosa(host, info.blob)) {
    check(graph.inputs(), blob.inputs, "inputs");
    check(graph.outputs(), blob.outputs, "outputs");
  }

  // Checks that the TOSA graph and the blob have the same number of inputs (or outputs), of the same sizes in bytes.
  static void check(const std::vector<Argument> &arguments, const ArenaTensors &of_blob, const char *what) {
    bool is_equal = arguments.size() == of_blob.count;
    for (uint32_t i = 0; is_equal && i < of_blob.count; ++i) is_equal = arguments[i].bytes == of_blob[i].bytes;
    if (!is_equal) {
      fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
           "the TOSA graph of the file has other %s than the blob: compile it again", what);
    }
  }
};

class Instance {
 public:
  Instance(Delegate &delegate, const Host &host) : graph_(delegate.graph), host_(host) {}

  std::vector<edgecore_memory_need> prepare(const Arguments &args) {
    const size_t inputs = graph_.inputs().size();
    for (size_t i = 0; i < inputs; ++i) {
      const Argument &expected = graph_.inputs()[i];
      tensor(args, i, expected);
      args.check_shape(i, expected.shape);
    }
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const Argument &expected = graph_.outputs()[i];
      tensor(args, inputs + i, expected);
      args.resize(inputs + i, expected.shape.data(), static_cast<int32_t>(expected.shape.size()));
    }
    return {};  // request no memory from the host: the simulator allocates its own
  }

  void execute(const Arguments &args, const Memory &) {
    const size_t inputs = graph_.inputs().size();
    std::vector<const void *> in;
    std::vector<void *> out;
    for (size_t i = 0; i < inputs; ++i) in.push_back(args.data<void>(i));
    for (size_t i = 0; i < graph_.outputs().size(); ++i) out.push_back(args.data<void>(inputs + i));
    const Event event(host_, "TOSA simulator", 0);
    graph_.run(in, out);
  }

 private:
  static const edgecore_tensor &tensor(const Arguments &args, size_t index, const Argument &expected) {
    return args.tensor(index, expected.code, expected.bits, static_cast<int32_t>(expected.shape.size()));
  }

  Graph &graph_;
  Host host_;
};

}  // namespace
}  // namespace edgecore::ethosu

extern "C" EDGECORE_BACKEND(ethosu) {
  using namespace edgecore::ethosu;
  static const edgecore_option_spec options[] = {
      edgecore::backend::option("simulator", EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD,
                                "Absolute path of libedgecore_tosa_simulator; in Python the default is the one in the "
                                "package edgecore-tosa.")};
  static const edgecore_backend table = edgecore::backend::make_table<Driver, Program, Delegate, Instance>(
      {"EthosUBackend", "edgecore-ethosu", EDGECORE_ETHOSU_VERSION,
       EDGECORE_NO_THREADS | EDGECORE_NEEDS_TRUSTED_BLOBS | EDGECORE_OWN_HEAP},
      options);
  return &table;
}
