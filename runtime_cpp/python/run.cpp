#include "run.h"

#include <chrono>
#include <cstring>

#include "docs.h"
#include "log.h"

namespace nb = nanobind;

namespace edgecore::python {
namespace {

constexpr std::chrono::milliseconds kSignalInterval(50);  // interval at which wait() checks for signals such as Ctrl+C

// Copies the elements of `view` to `block`, dense and in the dim order that the method expects. `view` then refers to
// the copy.
Status copy_input(const Method &method, size_t index, ArrayView &view, HeapBlock &block, Error &error) {
  const TensorInfo &expected = method.info().input(index).tensor;
  const uint64_t bytes = view.bytes();
  if (bytes > expected.bytes) return {};  // set_input will refuse the tensor, because it is too large
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
  view.writable = false;  // not writable: a program that mutates this input must fail instead of changing only the copy
  return {};
}

}  // namespace

std::unique_ptr<PyRun> PyMethod::start(nb::handle inputs) {
  Method &method = loaded();
  Error error;
  const auto input_count = static_cast<size_t>(PyTuple_Size(inputs.ptr()));
  if (input_count != inputs_.size()) refuse_count(input_count);
  const ArrayType *kind = nullptr;
  const std::unique_ptr<InputArg[]> args(new InputArg[inputs_.size()]);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const nb::handle object = PyTuple_GetItem(inputs.ptr(), static_cast<Py_ssize_t>(i));
    if (!read_input(i, object.ptr(), args[i], error).ok()) raise(error);
    if (kind == nullptr) kind = args[i].view.array_type;
  }
  const auto slots = std::make_shared<PyRun::Slots>(outputs_.size());
  const auto copies = std::make_shared<std::vector<HeapBlock>>(inputs_.size());
  std::vector<ValueInfo> infos;
  for (const Output &output : outputs_) infos.push_back(output.info);
  const auto run = std::make_shared<Run>(method, [&method, infos, slots, copies](Error &error) {
    for (size_t i = 0; i < infos.size(); ++i) {
      EDGECORE_TRY(collect_output(method, infos[i], i, (*slots)[i], error));
    }
    return Status();
  });

  Status status;
  {
    const nb::gil_scoped_release release;
    const bool may_pend = info_.delegate_count() != 0;
    for (size_t i = 0; may_pend && status.ok() && i < inputs_.size(); ++i) {
      if (inputs_[i].info.tag != EDGECORE_TAG_TENSOR || method.input_is_copied(i)) continue;
      status = copy_input(method, i, args[i].view, (*copies)[i], error);
    }
    if (status.ok()) {
      const std::unique_lock<std::mutex> lock = lock_->acquire();
      status = set_arguments(args.get(), slots->data(), error);
      if (status.ok()) lock_->start(run);
    }
  }
  deliver_log();
  if (!status.ok()) raise(error);
  return std::make_unique<PyRun>(lock_, run, slots, kind, unflatten_);
}

bool PyRun::done() {
  const nb::gil_scoped_release release;
  return lock_->wait(*run_, std::chrono::milliseconds(0));
}

nb::object PyRun::wait() {
  for (bool finished = run_->finished(); !finished;) {
    {
      const nb::gil_scoped_release release;
      finished = lock_->wait(*run_, kSignalInterval);
    }
    deliver_log();
    if (!finished && PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  if (!run_->status().ok()) raise(run_->error());
  if (outputs_.is_valid()) return outputs_;
  // Two threads may return from wait() at the same time, so the results are copied from the slots, not moved.
  nb::list list;
  for (const OutputSlot &slot : *slots_) {
    OutputSlot copy;
    copy.tensor = slot.tensor;
    copy.value = slot.value;
    list.append(copy.result(kind_));
  }
  nb::object results = unflatten_.is_valid() ? unflatten_(list) : nb::len(list) == 1 ? nb::object(list[0]) : list;
  if (!outputs_.is_valid()) outputs_ = std::move(results);
  return outputs_;
}

void bind_run(nb::module_ &module) {
  nb::class_<PyRun>(module, "Run", docs::kRun)
      .def("done", &PyRun::done, docs::kRunDone)
      .def("wait", &PyRun::wait, docs::kRunWait)
      .def(
          "__await__",
          [](const nb::object &self) {
            return nb::module_::import_("asyncio").attr("to_thread")(self.attr("wait")).attr("__await__")();
          },
          docs::kRunAwait);
}

}  // namespace edgecore::python
