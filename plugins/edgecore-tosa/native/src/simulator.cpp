#include "edgecore_tosa/simulator.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "check_graph.h"
#include "failures.h"
#include "model_runner.h"

namespace edgecore::tosa {
namespace {

// An input or output.
struct Value {
  std::string name;
  ::tosa::DType dtype;
  std::vector<int32_t> shape;
  size_t bytes;
};

// Calls visit(S(), T()): S is the element type in the caller's buffer, T the element type that the reference model uses
// for `dtype`. Returns false for a dtype that inputs and outputs cannot have.
template <typename Visit>
bool with_types(::tosa::DType dtype, const Visit &visit) {
  switch (dtype) {
    case ::tosa::DType_BOOL:
      return visit(uint8_t{}, uint8_t{}), true;
    case ::tosa::DType_INT4:
      return visit(int8_t{}, int32_t{}), true;
    case ::tosa::DType_INT8:
      return visit(int8_t{}, int8_t{}), true;
    case ::tosa::DType_INT16:
      return visit(int16_t{}, int16_t{}), true;
    case ::tosa::DType_INT32:
      return visit(int32_t{}, int32_t{}), true;
    case ::tosa::DType_INT48:
      return visit(int64_t{}, int64_t{}), true;
    case ::tosa::DType_FP16:
      return visit(ct::float16{}, ct::float16{}), true;
    case ::tosa::DType_BF16:
      return visit(ct::bfloat16{}, ct::bfloat16{}), true;
    case ::tosa::DType_FP32:
      return visit(float{}, float{}), true;
    default:
      return false;
  }
}

std::vector<Value> describe(::tosa::TosaSerializationBasicBlock &block, const std::vector<std::string> &names) {
  std::vector<Value> values;
  for (const std::string &name : names) {
    const auto *tensor = block.GetTensorByName(name);
    size_t size = 0;
    if (!with_types(tensor->GetDtype(), [&size](auto element, auto) { size = sizeof element; })) {
      throw Failure(EDGECORE_TOSA_NOT_SUPPORTED, "Tensor '" + name + "' is an input or output of " +
                                                     ::tosa::EnumNameDType(tensor->GetDtype()) +
                                                     ", a dtype that the simulator supports only inside of a graph.");
    }
    values.push_back({name, tensor->GetDtype(), tensor->GetShape(), size * element_count(name, tensor->GetShape())});
  }
  return values;
}

// Makes a violated requirement end the run, because the result would be undefined. edgecore_tosa_load calls this
// function. A static initializer would be too early: the reference model could still set g_func_config to its own
// default afterwards.
void configure() {
  static const bool done = g_func_config.terminate_early = true;
  static_cast<void>(done);
}

// set_input copies a value to the reference model, get_output copies a value from it. Both return false if the model
// refuses the value.
bool set_input(TosaReference::IModelRunner &runner, const Value &value, const void *from) {
  int status = 1;
  with_types(value.dtype, [&](auto stored, auto taken) {
    std::vector<decltype(stored)> elements(value.bytes / sizeof stored);
    std::memcpy(static_cast<void *>(elements.data()), from, value.bytes);
    std::vector<decltype(taken)> copy(elements.begin(), elements.end());
    status = runner.setInput(value.name, copy);
  });
  return status == 0;
}

bool get_output(TosaReference::IModelRunner &runner, const Value &value, void *to) {
  bool complete = false;
  with_types(value.dtype, [&](auto stored, auto given) {
    const auto copy = runner.getOutput<decltype(given)>(value.name);
    const std::vector<decltype(stored)> elements(copy.begin(), copy.end());
    complete = elements.size() * sizeof stored == value.bytes;
    if (complete) std::memcpy(to, elements.data(), value.bytes);
  });
  return complete;
}

// Returns a new runner. A runner frees the inputs, so it can run the graph only once.
std::unique_ptr<TosaReference::IModelRunner> prepare(Supervisor &supervisor,
                                                     ::tosa::TosaSerializationHandler &handler) {
  std::unique_ptr<TosaReference::IModelRunner> runner;
  supervisor.call(EDGECORE_TOSA_INVALID_GRAPH, [&] {
    runner = std::make_unique<TosaReference::IModelRunner>();
    if (runner->initialize(handler) != GraphStatus::TOSA_VALID) {
      throw Failure(EDGECORE_TOSA_INVALID_GRAPH, supervisor.problem());
    }
  });
  return runner;
}

// Runs `body`, and converts its exceptions to a code and a message.
template <typename Body>
int reported(char *error, size_t error_size, const Body &body) {
  int code = EDGECORE_TOSA_OK;
  std::string text;
  try {
    body();
  } catch (const Failure &failure) {
    code = failure.code;
    text = failure.what();
  } catch (const std::bad_alloc &) {
    code = EDGECORE_TOSA_OUT_OF_MEMORY;
    text = "There is not enough memory for the TOSA graph.";
  } catch (const std::exception &other) {
    code = EDGECORE_TOSA_INVALID_GRAPH;
    text = std::string("The reference model failed: ") + other.what();
  }
  if (code != EDGECORE_TOSA_OK && error_size != 0) {
    const size_t size = std::min(text.size(), error_size - 1);
    std::memcpy(error, text.data(), size);
    error[size] = '\0';
  }
  return code;
}

int describe(const std::vector<Value> &values, size_t index, uint32_t *dtype, const int32_t **dims, size_t *rank,
             size_t *bytes) {
  if (index >= values.size()) return EDGECORE_TOSA_INVALID_GRAPH;
  const Value &value = values[index];
  *dtype = value.dtype;
  *dims = value.shape.data();
  *rank = value.shape.size();
  *bytes = value.bytes;
  return EDGECORE_TOSA_OK;
}

}  // namespace
}  // namespace edgecore::tosa

using edgecore::tosa::Failure;
using edgecore::tosa::Supervisor;

struct edgecore_tosa_model {
  ::tosa::TosaSerializationHandler handler;
  std::vector<edgecore::tosa::Value> inputs, outputs;
};

uint32_t edgecore_tosa_simulator_version(void) { return EDGECORE_TOSA_SIMULATOR_VERSION; }

int edgecore_tosa_load(const void *graph, size_t size, edgecore_tosa_model **model, char *error, size_t error_size) {
  return edgecore::tosa::reported(error, error_size, [&] {
    edgecore::tosa::configure();
    // Copy the graph, because flatbuffers must be aligned.
    const std::vector<uint8_t> bytes(static_cast<const uint8_t *>(graph), static_cast<const uint8_t *>(graph) + size);
    edgecore::tosa::check_graph(bytes.data(), size);
    auto loaded = std::make_unique<edgecore_tosa_model>();
    Supervisor supervisor;
    supervisor.call(EDGECORE_TOSA_INVALID_GRAPH, [&] {
      if (loaded->handler.LoadFileTosaFlatbuffer(bytes.data(), size) != ::tosa::TOSA_OK) {
        throw Failure(EDGECORE_TOSA_INVALID_GRAPH, supervisor.problem());
      }
    });
    ::tosa::TosaSerializationBasicBlock &block = *loaded->handler.GetMainRegion()->GetBlocks()[0];
    loaded->inputs = edgecore::tosa::describe(block, block.GetInputs());
    loaded->outputs = edgecore::tosa::describe(block, block.GetOutputs());
    edgecore::tosa::prepare(supervisor, loaded->handler);  // runs the reference model's checks of operators
    *model = loaded.release();
  });
}

void edgecore_tosa_destroy(edgecore_tosa_model *model) { std::unique_ptr<edgecore_tosa_model>{model}; }

size_t edgecore_tosa_input_count(const edgecore_tosa_model *model) { return model->inputs.size(); }

size_t edgecore_tosa_output_count(const edgecore_tosa_model *model) { return model->outputs.size(); }

int edgecore_tosa_input(const edgecore_tosa_model *model, size_t index, uint32_t *dtype, const int32_t **dims,
                        size_t *rank, size_t *bytes) {
  return edgecore::tosa::describe(model->inputs, index, dtype, dims, rank, bytes);
}

int edgecore_tosa_output(const edgecore_tosa_model *model, size_t index, uint32_t *dtype, const int32_t **dims,
                         size_t *rank, size_t *bytes) {
  return edgecore::tosa::describe(model->outputs, index, dtype, dims, rank, bytes);
}

int edgecore_tosa_run(edgecore_tosa_model *model, const void *const *inputs, void *const *outputs, char *error,
                      size_t error_size) {
  return edgecore::tosa::reported(error, error_size, [&] {
    Supervisor supervisor;
    const auto runner = edgecore::tosa::prepare(supervisor, model->handler);
    supervisor.call(EDGECORE_TOSA_RUN_FAILED, [&] {
      const auto check = [&supervisor](bool ok) {
        if (!ok) throw Failure(EDGECORE_TOSA_RUN_FAILED, supervisor.problem());
      };
      for (size_t index = 0; index < model->inputs.size(); ++index) {
        check(edgecore::tosa::set_input(*runner, model->inputs[index], inputs[index]));
      }
      check(runner->run() == GraphStatus::TOSA_VALID);
      for (size_t index = 0; index < model->outputs.size(); ++index) {
        check(edgecore::tosa::get_output(*runner, model->outputs[index], outputs[index]));
      }
    });
  });
}
