// Opens the TOSA simulator, the library libedgecore_tosa_simulator of the package edgecore-tosa, and runs graphs with
// it. The library's header edgecore_tosa/simulator.h declares the types and functions.
#ifndef EDGECORE_ETHOSU_SIMULATOR_H_
#define EDGECORE_ETHOSU_SIMULATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "edgecore/backend.hpp"

struct edgecore_tosa_model;

namespace edgecore::ethosu {

using Describe = int (*)(const edgecore_tosa_model *, size_t, uint32_t *dtype, const int32_t **dims, size_t *rank,
                         size_t *bytes);

struct Simulator {
  uint32_t (*version)();
  int (*load)(const void *graph, size_t size, edgecore_tosa_model **, char *error, size_t error_size);
  void (*destroy)(edgecore_tosa_model *);
  size_t (*input_count)(const edgecore_tosa_model *);
  size_t (*output_count)(const edgecore_tosa_model *);
  Describe input;
  Describe output;
  int (*run)(edgecore_tosa_model *, const void *const *inputs, void *const *outputs, char *error, size_t error_size);
};

// Opens the simulator's library at a path and checks its version. The library stays open until the process ends.
Simulator open_simulator(const std::string &path);

// An argument of a TOSA graph: its dtype in DLPack's terms, its shape and its size in bytes.
struct Argument {
  uint8_t code;
  uint8_t bits;
  std::vector<int64_t> shape;
  uint64_t bytes;
};

// A loaded TOSA graph. Several threads may call `run`; only one of them runs at a time.
class Graph {
 public:
  Graph(const Simulator &simulator, edgecore_bytes tosa);

  const std::vector<Argument> &inputs() const { return inputs_; }
  const std::vector<Argument> &outputs() const { return outputs_; }
  void run(const std::vector<const void *> &inputs, const std::vector<void *> &outputs);

 private:
  std::vector<Argument> arguments(Describe describe, size_t count) const;

  const Simulator simulator_;
  std::unique_ptr<edgecore_tosa_model, void (*)(edgecore_tosa_model *)> model_;
  std::vector<Argument> inputs_, outputs_;
  std::mutex mutex_;
};

}  // namespace edgecore::ethosu

#endif  // EDGECORE_ETHOSU_SIMULATOR_H_
