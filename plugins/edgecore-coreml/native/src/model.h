// The interface through which the delegate uses Core ML models. core_ml.mm implements it with Apple's frameworks,
// standin.cpp with a child process for tests; elsewhere.cpp reports that the system does not support Core ML.
#ifndef EDGECORE_COREML_MODEL_H_
#define EDGECORE_COREML_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "edgecore/backend.hpp"

namespace edgecore::coreml {

enum class Element { kFloat16, kFloat32, kInt32 };

constexpr uint64_t element_bytes(Element element) { return element == Element::kFloat16 ? 2 : 4; }

struct Range {
  int64_t low, high;
};

// An input, an output or a state of a model.
struct Feature {
  std::string name;
  Element element = Element::kFloat32;
  std::vector<Range> sizes;                  // allowed sizes of each dim
  std::vector<std::vector<int64_t>> shapes;  // the only allowed shapes; empty: all shapes within `sizes`
  bool is_fixed = false;                     // true: each dim has one size; an output that is not fixed has no `sizes`
};

// The elements of an input, output or state, in row-major order without gaps.
struct Array {
  Element element = Element::kFloat32;
  std::vector<int64_t> shape;
  void *data = nullptr;
};

using Done = edgecore::backend::PendingRun::Done;

// A session of a model: the values of its states, and its predictions. Used by one thread at a time.
class Session {
 public:
  virtual ~Session() = default;
  // Computes the outputs and sets their shapes. Writes elements only to outputs that have `data`; the caller must set
  // the shapes of these outputs correctly. The arrays are in the order of Model::inputs and Model::outputs.
  virtual void predict(const std::vector<Array> &inputs, std::vector<Array> &outputs) = 0;
  // Starts a prediction, and may return before it ends. Calls `done` once at its end. Until then the caller calls no
  // other member, and keeps the arrays valid. If start throws, no prediction was started.
  virtual void start(const std::vector<Array> &inputs, std::vector<Array> &outputs, const Done &done) {
    predict(inputs, outputs);
    done(nullptr);
  }
  // read_state copies the state `name` to `out`; write_state sets it to the elements of `in`. `out` or `in` must have
  // the size of the state.
  virtual void read_state(const std::string &name, Array out) = 0;
  virtual void write_state(const std::string &name, Array in) = 0;
};

// A loaded model. Thread-safe.
class Model {
 public:
  virtual ~Model() = default;
  virtual std::unique_ptr<Session> make_session() = 0;

  std::vector<Feature> inputs, outputs;
};

struct Request {
  std::string folder;                        // the folder that Engine::compile has compiled
  std::string function;                      // function of the ML program; empty: the default function
  std::string compute_units;                 // the compile spec `compute_units`, for example "cpu_and_ne"
  std::vector<std::string> inputs, outputs;  // names of inputs and outputs, in the order of the delegate's arguments
};

class Engine {
 public:
  virtual ~Engine() = default;
  // Compiles the model package in `folder`, which has the files of a blob; stores the result in the same folder.
  virtual void compile(const std::string &folder) = 0;
  // Loads the model of a compiled folder. Throws edgecore::backend::Failure if Core ML refuses the model.
  virtual std::unique_ptr<Model> load(const Request &request) = 0;
};

// Makes the engine of this system. `standin` is the load option of this name. Throws edgecore::backend::Failure if the
// system has no engine.
std::shared_ptr<Engine> make_engine(const std::string &standin);

}  // namespace edgecore::coreml

#endif  // EDGECORE_COREML_MODEL_H_
