// The Core ML backend: unpacks the model in a delegate's blob to a cache, and runs it with this system's engine.
#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "blob.h"
#include "cache.h"
#include "edgecore/backend.hpp"
#include "model.h"
#include "state.h"

#ifndef EDGECORE_COREML_VERSION
#define EDGECORE_COREML_VERSION "0"
#endif

namespace edgecore::coreml {
namespace {

using edgecore::backend::Arguments;
using edgecore::backend::Event;
using edgecore::backend::fail;
using edgecore::backend::Failure;
using edgecore::backend::Host;
using edgecore::backend::Options;
using edgecore::backend::PendingRun;

// The engines of this process: Core ML, or its stand-ins for tests, one for each value of the load option `standin`.
struct Driver {
  explicit Driver(const Host &) {}

  // Checks the compatibility string, which lowering.py writes: "coreml-package 1 TARGET".
  int32_t check_compatibility(std::string_view text) const {
    return edgecore::backend::check_format(text, "coreml-package 1", "edgecore-coreml");
  }

  std::shared_ptr<Engine> engine(const std::string &standin) {
    const std::lock_guard<std::mutex> lock(*mutex);
    std::shared_ptr<Engine> &engine = engines[standin];
    if (engine == nullptr) engine = make_engine(standin);
    return engine;
  }

  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
  std::map<std::string, std::shared_ptr<Engine>> engines;
};

// The load options of one loaded .pte file.
struct Program {
  Program(Driver &owner, const Host &, const Options &options)
      : driver(owner), standin(options.path("standin")), cache(options.path("model_cache_folder")) {}

  Driver &driver;
  const std::string standin, cache;
};

// Returns the initial values of a state. If the model initializes the state with zeros, a .ptd file may still have
// other values.
edgecore_bytes initial_values(const Host &host, const StateInfo &state) {
  if (state.has_initial) return host.named_data(state.buffer);
  return host.find_named_data(state.buffer).value_or(edgecore_bytes{});
}

// The loaded model of a delegate, shared by all methods that use the delegate.
class Delegate {
 public:
  Delegate(Program &program, const Host &host, const edgecore_delegate_info &info) {
    Package package = read_package(info.blob, [&](std::string_view key) { return host.named_data(key); });
    engine_ = program.driver.engine(program.standin);
    Request request;
    request.folder = cached_folder(program.cache.empty() ? default_cache() : program.cache, package.folder,
                                   package.files, [&](const std::string &folder) { engine_->compile(folder); });
    request.function = package.function;
    request.compute_units = edgecore::backend::compile_spec(info, "compute_units");
    request.inputs = std::move(package.inputs);
    request.outputs = std::move(package.outputs);
    model = engine_->load(request);
    states = std::move(package.states);
    for (StateInfo &state : states) state.initial = initial_values(host, state);
    info.release_blob(info.scope);
  }

  uint64_t argument_count() const noexcept { return model->inputs.size() + model->outputs.size(); }

 private:
  std::shared_ptr<Engine> engine_;

 public:
  std::unique_ptr<Model> model;
  std::vector<StateInfo> states;
};

// Returns true if the argument is int64 and the model has int32, because Core ML has no 64-bit integers.
bool is_converted(const edgecore_tensor &tensor, Element element) {
  return element == Element::kInt32 && tensor.dl.dtype.code == EDGECORE_DL_INT && tensor.dl.dtype.bits == 64;
}

const edgecore_tensor &checked(const Arguments &args, size_t index, const Feature &feature, int32_t rank) {
  const uint8_t code = feature.element == Element::kInt32 ? EDGECORE_DL_INT : EDGECORE_DL_FLOAT;
  const bool is_wide = is_converted(args.tensor(index), feature.element);
  const auto bits = static_cast<uint8_t>(is_wide ? 64 : element_bytes(feature.element) * 8);
  return args.tensor(index, code, bits, rank);
}

std::vector<int64_t> shape_of(const edgecore_tensor &tensor) {
  return {tensor.dl.shape, tensor.dl.shape + tensor.dl.ndim};
}

uint64_t count(const std::vector<int64_t> &shape) {
  uint64_t elements = 1;
  for (const int64_t size : shape) elements *= static_cast<uint64_t>(size);
  return elements;
}

void check_range(size_t index, const Feature &feature, const std::vector<int64_t> &shape) {
  for (size_t d = 0; d < shape.size(); ++d) {
    const Range range = feature.sizes[d];
    if (range.low <= shape[d] && shape[d] <= range.high) continue;
    fail(EDGECORE_INVALID_ARGUMENT, "argument %zu has size %lld in dim %zu, and the model takes %lld to %lld", index,
         static_cast<long long>(shape[d]), d, static_cast<long long>(range.low), static_cast<long long>(range.high));
  }
}

void check_choice(size_t index, const Feature &feature, const std::vector<int64_t> &shape) {
  const auto &choice = feature.shapes;
  if (choice.empty() || std::find(choice.begin(), choice.end(), shape) != choice.end()) return;
  fail(EDGECORE_INVALID_ARGUMENT, "argument %zu has none of the %zu shapes that the model takes", index, choice.size());
}

// The execution state of a delegate in one method: a session of the model, and the arrays of its arguments.
class Instance {
 public:
  Instance(Delegate &delegate, const Host &host, const edgecore_instance_info &info)
      : model_(*delegate.model),
        host_(host),
        is_profiled_((info.flags & EDGECORE_INSTANCE_PROFILED) != 0),
        session_(std::make_shared<SharedSession>(model_.make_session())) {
    if (delegate.states.empty()) return;
    state_ = &edgecore::backend::state_set<State>(info);
    for (const StateInfo &buffer : delegate.states) session_->states.push_back({state_->add(buffer), buffer.name});
  }

  std::vector<edgecore_memory_need> prepare(const Arguments &args) {
    inputs_.clear();
    wide_.assign(args.size(), {});
    for (size_t i = 0; i < model_.inputs.size(); ++i) {
      const Feature &feature = model_.inputs[i];
      const edgecore_tensor &tensor = checked(args, i, feature, static_cast<int32_t>(feature.sizes.size()));
      inputs_.push_back({feature.element, shape_of(tensor), nullptr});
      check_range(i, feature, inputs_[i].shape);
      if (is_converted(tensor, feature.element)) wide_[i].resize(count(inputs_[i].shape));
    }
    refusal_ = nullptr;
    try {
      for (size_t i = 0; i < inputs_.size(); ++i) check_choice(i, model_.inputs[i], inputs_[i].shape);
      set_output_shapes();
    } catch (const Failure &) {
      if (!may_be_maximum()) throw;
      refusal_ = std::current_exception();
      keep_output_shapes(args);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const size_t index = inputs_.size() + i;
      const std::vector<int64_t> &shape = outputs_[i].shape;
      const auto rank = static_cast<int32_t>(shape.size());
      const edgecore_tensor &tensor = checked(args, index, model_.outputs[i], rank);
      if (is_converted(tensor, outputs_[i].element)) wide_[index].resize(count(shape));
      args.resize(index, shape.data(), rank);
    }
    return {};  // request no memory from the host: Core ML allocates its own
  }

  // Runs the model. Returns EDGECORE_PENDING if the host supports pending runs and this run is not profiled.
  int32_t run(const edgecore_execute_info &info, const Arguments &args) {
    if (refusal_) std::rethrow_exception(refusal_);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      inputs_[i].data = wide_[i].empty() ? args.data<void>(i) : narrowed(i, args.data<int64_t>(i));
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const size_t index = inputs_.size() + i;
      outputs_[i].data = wide_[index].empty() ? args.data<void>(index) : wide_[index].data();
    }
    if (state_ != nullptr) state_->give(session_);
    std::vector<int64_t *> wide_outputs;
    for (size_t i = inputs_.size(); i < wide_.size(); ++i) {
      wide_outputs.push_back(wide_[i].empty() ? nullptr : args.data<int64_t>(i));
    }
    const auto widen = [this, wide_outputs = std::move(wide_outputs)] {
      for (size_t i = 0; i < wide_outputs.size(); ++i) {
        const std::vector<int32_t> &from = wide_[inputs_.size() + i];
        std::copy(from.begin(), from.end(), wide_outputs[i]);
      }
    };
    if (info.completion == nullptr || is_profiled_) {
      const Event event(host_, "Core ML", 0);
      session_->session->predict(inputs_, outputs_);
      widen();
      return EDGECORE_OK;
    }
    return pending_.begin(
        info, [this](const PendingRun::Done &done) { session_->session->start(inputs_, outputs_, done); }, widen);
  }

 private:
  // Returns true if all inputs have their maximum sizes, as they do while a method is loaded, and the model enumerates
  // allowed shapes. If the maximum is not among the allowed shapes, the instance can be prepared, but not run.
  bool may_be_maximum() const {
    bool has_choice = false;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      has_choice = has_choice || !model_.inputs[i].shapes.empty();
      for (size_t d = 0; d < inputs_[i].shape.size(); ++d) {
        if (inputs_[i].shape[d] != model_.inputs[i].sizes[d].high) return false;
      }
    }
    return has_choice;
  }

  void keep_output_shapes(const Arguments &args) {
    outputs_.clear();
    for (const Feature &feature : model_.outputs) {
      outputs_.push_back({feature.element, shape_of(args.tensor(inputs_.size() + outputs_.size())), nullptr});
    }
  }

  // Sets the shapes of the outputs. If output shapes depend on input shapes, Core ML tells the output shapes only after
  // a prediction. So this function predicts once with zeros, in a new session, whose states no other session uses.
  void set_output_shapes() {
    outputs_.clear();
    bool is_fixed = true;
    for (const Feature &feature : model_.outputs) {
      outputs_.push_back({feature.element, {}, nullptr});
      for (const Range &range : feature.sizes) outputs_.back().shape.push_back(range.low);
      is_fixed = is_fixed && feature.is_fixed;
    }
    if (is_fixed) return;
    std::vector<std::vector<uint8_t>> zeros;
    for (Array &input : inputs_) {
      zeros.emplace_back(static_cast<size_t>(count(input.shape) * element_bytes(input.element)));
      input.data = zeros.back().data();
    }
    model_.make_session()->predict(inputs_, outputs_);
  }

  int32_t *narrowed(size_t index, const int64_t *from) {
    std::vector<int32_t> &out = wide_[index];
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<int32_t>(from[i]);
      if (out[i] == from[i]) continue;
      fail(EDGECORE_INVALID_ARGUMENT, "argument %zu has the value %lld; Core ML's integers have 32 bits", index,
           static_cast<long long>(from[i]));
    }
    return out.data();
  }

  Model &model_;
  Host host_;
  bool is_profiled_;
  std::shared_ptr<SharedSession> session_;
  State *state_ = nullptr;
  std::exception_ptr refusal_;  // if the model refused the shapes in prepare, the error that run throws
  std::vector<Array> inputs_, outputs_;
  std::vector<std::vector<int32_t>> wide_;  // for each 64-bit argument, its elements as 32-bit integers
  PendingRun pending_;
};

}  // namespace
}  // namespace edgecore::coreml

extern "C" EDGECORE_BACKEND(coreml) {
  using namespace edgecore::coreml;
  static const edgecore_option_spec options[] = {
      edgecore::backend::option("model_cache_folder", EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD,
                                "Absolute path of the folder with compiled models; default: edgecore-coreml in the "
                                "user's folder for caches."),
      edgecore::backend::option("standin", EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD,
                                "For tests on Linux: absolute path of a Python interpreter with "
                                "edgecore-coreml[standin], which then computes the models instead of Core ML.")};
  constexpr uint32_t kThreadsAndHeap = EDGECORE_VENDOR_THREADS | EDGECORE_OWN_HEAP;
#if defined(__APPLE__)
  constexpr uint32_t kFlags = kThreadsAndHeap | EDGECORE_NEEDS_TRUSTED_BLOBS;
#else
  constexpr uint32_t kFlags = kThreadsAndHeap | EDGECORE_VALIDATES_BLOBS;
#endif
  static const edgecore_backend table = edgecore::backend::make_table<Driver, Program, Delegate, Instance, State>(
      {"CoreMLBackend", "edgecore-coreml", EDGECORE_COREML_VERSION, kFlags}, options);
  return &table;
}
