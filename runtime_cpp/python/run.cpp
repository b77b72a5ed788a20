#include "run.h"

#include <chrono>
#include <cstring>

namespace nb = nanobind;

namespace edgecore::python {
namespace {

constexpr std::chrono::milliseconds kBetweenSignals(50);

// Makes `view` one of a dense copy in `block`, in the order that the method expects.
Status copy_input(const Method &method, size_t index, ArrayView &view, HeapBlock &block, Error &error) {
  const TensorInfo &expected = method.info().input(index).tensor;
  const uint64_t bytes = view.bytes();
  if (bytes > expected.bytes) return {};  // will be refused
  block = heap_block(static_cast<size_t>(bytes) + kArenaTail, kArenaAlignment);
  if (block == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for a copy of input ", index, " of method '",
                method.info().name(), "' (", bytes, " bytes).");
  }
  uint8_t order[kMaxRank];
  const bool same_rank = expected.dim_order.size() == static_cast<size_t>(view.ndim);
  for (int i = 0; i < view.ndim; ++i) {
    order[i] = same_rank ? expected.dim_order[static_cast<size_t>(i)] : static_cast<uint8_t>(i);
  }
  if (view.dense_in(order)) {
    if (bytes != 0) std::memcpy(block.get(), view.data, static_cast<size_t>(bytes));
  } else {
    copy_dense(view, order, block.get());
  }
  dense_strides(view.ndim, view.shape, order, view.strides);
  view.data = block.get();
  view.writable = false;  // a program that writes to its input would change the copy only
  return {};
}

}  // namespace

std::unique_ptr<Run> Runner::start(nb::handle inputs) {
  Error error;
  const auto given_count = static_cast<size_t>(PyTuple_Size(inputs.ptr()));
  if (given_count != inputs_.size()) refuse_count(given_count);
  const ArrayType *kind = nullptr;
  const std::unique_ptr<Given[]> given(new Given[inputs_.size()]);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const nb::handle object = PyTuple_GetItem(inputs.ptr(), static_cast<Py_ssize_t>(i));
    if (!read_input(i, object.ptr(), given[i], error).ok()) raise(error);
    if (kind == nullptr) kind = given[i].view.array_type;
  }
  const auto results = std::make_shared<Run::Results>(outputs_.size());
  const auto copies = std::make_shared<std::vector<HeapBlock>>(inputs_.size());
  std::vector<ValueInfo> infos;
  for (const Output &output : outputs_) infos.push_back(output.info);
  const auto run = std::make_shared<StartedRun>(method_, [&method = method_, infos, results, copies](Error &error) {
    for (size_t i = 0; i < infos.size(); ++i) {
      EDGECORE_TRY(python::take_result(method, infos[i], i, (*results)[i], error));
    }
    return Status();
  });

  Status status;
  {
    const nb::gil_scoped_release release;
    const bool may_wait = method_.info().delegate_count() != 0;
    for (size_t i = 0; may_wait && status.ok() && i < inputs_.size(); ++i) {
      if (inputs_[i].info.tag != EDGECORE_TAG_TENSOR || method_.input_is_copied(i)) continue;
      status = copy_input(method_, i, given[i].view, (*copies)[i], error);
    }
    if (status.ok()) {
      const std::unique_lock<std::mutex> lock = turn_->take();
      status = set_arguments(given.get(), results->data(), error);
      if (status.ok()) turn_->start(run);
    }
  }
  if (!status.ok()) raise(error);
  return std::make_unique<Run>(turn_, run, results, kind);
}

bool Run::done() {
  const nb::gil_scoped_release release;
  return turn_->advance(*started_, std::chrono::milliseconds(0));
}

nb::object Run::wait() {
  for (bool ended = started_->ended(); !ended;) {
    {
      const nb::gil_scoped_release release;
      ended = turn_->advance(*started_, kBetweenSignals);
    }
    if (!ended && PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  if (!started_->status().ok()) raise(started_->error());
  if (outputs_.is_valid()) return outputs_;
  // Two threads may come here together: what one took, the other must still find.
  nb::list list;
  for (const Made &made : *results_) {
    Made copy;
    copy.tensor = made.tensor;
    copy.value = made.value;
    list.append(copy.result(kind_));
  }
  if (!outputs_.is_valid()) outputs_ = nb::len(list) == 1 ? nb::object(list[0]) : nb::object(list);
  return outputs_;
}

void bind_run(nb::module_ &module) {
  nb::class_<Run>(module, "Run")
      .def("done", &Run::done)
      .def("wait", &Run::wait)
      .def("__await__", [](const nb::object &self) {
        return nb::module_::import_("asyncio").attr("to_thread")(self.attr("wait")).attr("__await__")();
      });
}

}  // namespace edgecore::python
