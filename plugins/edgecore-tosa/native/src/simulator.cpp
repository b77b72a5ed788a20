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

namespace edgecore_tosa {
namespace {

// An input or output.
struct Value {
  std::string name;
  tosa::DType dtype;
  std::vector<int32_t> shape;
  size_t bytes;
};

// The bytes of an element in a buffer of the caller; 0 for a dtype that inputs and outputs do not have.
size_t element_size(tosa::DType dtype) {
  switch (dtype) {
    case tosa::DType_BOOL:
    case tosa::DType_INT4:
    case tosa::DType_INT8:
      return 1;
    case tosa::DType_INT16:
    case tosa::DType_FP16:
    case tosa::DType_BF16:
      return 2;
    case tosa::DType_INT32:
    case tosa::DType_FP32:
      return 4;
    case tosa::DType_INT48:
    case tosa::DType_INT64:
      return 8;
    default:
      return 0;
  }
}

std::vector<Value> describe(tosa::TosaSerializationBasicBlock &block, const std::vector<std::string> &names) {
  std::vector<Value> values;
  for (const std::string &name : names) {
    const auto *tensor = block.GetTensorByName(name);
    const size_t size = element_size(tensor->GetDtype());
    if (size == 0) {
      throw Failure(EDGECORE_TOSA_NOT_SUPPORTED,
                    "Tensor '" + name + "' is an input or output of " + tosa::EnumNameDType(tensor->GetDtype()) +
                        ", a dtype that the simulator supports only inside of a graph.");
    }
    values.push_back({name, tensor->GetDtype(), tensor->GetShape(), size * element_count(name, tensor->GetShape())});
  }
  return values;
}

// Makes a violated requirement end the run: its result would be undefined. Here, since the reference model initializes
// the variable itself when the library is loaded.
void configure() {
  static const bool done = g_func_config.terminate_early = true;
  static_cast<void>(done);
}

// The reference model can run a graph once: it frees the inputs.
std::unique_ptr<TosaReference::IModelRunner> prepare(Supervisor &supervisor, tosa::TosaSerializationHandler &handler) {
  std::unique_ptr<TosaReference::IModelRunner> runner;
  supervisor.call(EDGECORE_TOSA_INVALID_GRAPH, [&] {
    runner = std::make_unique<TosaReference::IModelRunner>();
    if (runner->initialize(handler) != GraphStatus::TOSA_VALID) {
      throw Failure(EDGECORE_TOSA_INVALID_GRAPH, supervisor.problem());
    }
  });
  return runner;
}

// Runs `body`, and turns its exceptions into a code and a message.
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
}  // namespace edgecore_tosa

using edgecore_tosa::Failure;
using edgecore_tosa::Supervisor;

struct edgecore_tosa_model {
  tosa::TosaSerializationHandler handler;
  std::vector<edgecore_tosa::Value> inputs, outputs;
};

uint32_t edgecore_tosa_simulator_version(void) { return EDGECORE_TOSA_SIMULATOR_VERSION; }

int edgecore_tosa_load(const void *graph, size_t size, edgecore_tosa_model **model, char *error, size_t error_size) {
  return edgecore_tosa::reported(error, error_size, [&] {
    edgecore_tosa::configure();
    // A copy: flatbuffers must be aligned.
    const std::vector<uint8_t> bytes(static_cast<const uint8_t *>(graph), static_cast<const uint8_t *>(graph) + size);
    edgecore_tosa::check_graph(bytes.data(), size);
    auto loaded = std::make_unique<edgecore_tosa_model>();
    Supervisor supervisor;
    supervisor.call(EDGECORE_TOSA_INVALID_GRAPH, [&] {
      if (loaded->handler.LoadFileTosaFlatbuffer(bytes.data(), size) != tosa::TOSA_OK) {
        throw Failure(EDGECORE_TOSA_INVALID_GRAPH, supervisor.problem());
      }
    });
    tosa::TosaSerializationBasicBlock &block = *loaded->handler.GetMainRegion()->GetBlocks()[0];
    loaded->inputs = edgecore_tosa::describe(block, block.GetInputs());
    loaded->outputs = edgecore_tosa::describe(block, block.GetOutputs());
    edgecore_tosa::prepare(supervisor, loaded->handler);  // for its checks of operators
    *model = loaded.release();
  });
}

void edgecore_tosa_destroy(edgecore_tosa_model *model) { std::unique_ptr<edgecore_tosa_model>{model}; }

size_t edgecore_tosa_input_count(const edgecore_tosa_model *model) { return model->inputs.size(); }

size_t edgecore_tosa_output_count(const edgecore_tosa_model *model) { return model->outputs.size(); }

int edgecore_tosa_input(const edgecore_tosa_model *model, size_t index, uint32_t *dtype, const int32_t **dims,
                        size_t *rank, size_t *bytes) {
  return edgecore_tosa::describe(model->inputs, index, dtype, dims, rank, bytes);
}

int edgecore_tosa_output(const edgecore_tosa_model *model, size_t index, uint32_t *dtype, const int32_t **dims,
                         size_t *rank, size_t *bytes) {
  return edgecore_tosa::describe(model->outputs, index, dtype, dims, rank, bytes);
}

int edgecore_tosa_run(edgecore_tosa_model *model, const void *const *inputs, void *const *outputs, char *error,
                      size_t error_size) {
  return edgecore_tosa::reported(error, error_size, [&] {
    Supervisor supervisor;
    const auto runner = edgecore_tosa::prepare(supervisor, model->handler);
    const auto check = [&](int status) {
      if (status != 0) throw Failure(EDGECORE_TOSA_RUN_FAILED, supervisor.problem());
    };
    supervisor.call(EDGECORE_TOSA_RUN_FAILED, [&] {
      for (size_t index = 0; index < model->inputs.size(); ++index) {
        const auto &input = model->inputs[index];
        std::vector<uint8_t> copy(static_cast<const uint8_t *>(inputs[index]),
                                  static_cast<const uint8_t *>(inputs[index]) + input.bytes);
        check(runner->setInput(input.name, copy.data(), input.bytes));
      }
      check(static_cast<int>(runner->run()));
      for (size_t index = 0; index < model->outputs.size(); ++index) {
        const auto &output = model->outputs[index];
        std::vector<uint8_t> copy(output.bytes);
        check(runner->getOutput(output.name, copy.data(), output.bytes));
        std::copy(copy.begin(), copy.end(), static_cast<uint8_t *>(outputs[index]));
      }
    });
  });
}
