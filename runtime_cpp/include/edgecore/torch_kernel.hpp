// The kernels of kernel.hpp as operators of PyTorch, so that eager mode, torch.export and the runtime call the same
// function. Header-only; needs the headers of libtorch. Include it only in the sources of a library for
// torch.ops.load_library, not in the sources of the library for the runtime, which must not need libtorch.
//
//   EDGECORE_TORCH_LIBRARY(
//       my_ops, "multiply_add.out(Tensor a, Tensor b, float scale, *, Tensor(a!) out) -> Tensor(a!)", multiply_add);
//
// defines torch.ops.my_ops.multiply_add.out. For a schema with one out argument,
//
//   EDGECORE_TORCH_FUNCTIONAL(my_ops, "multiply_add(Tensor a, Tensor b, float scale) -> Tensor", multiply_add);
//
// defines the operator that models call. The operator's result has the type of the first tensor argument, and the shape
// that the kernel sets. torch.export also needs torch.library.register_fake, in Python.
#ifndef EDGECORE_TORCH_KERNEL_HPP_
#define EDGECORE_TORCH_KERNEL_HPP_

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "edgecore/kernel.hpp"

namespace edgecore {
namespace kernel __attribute__((visibility("hidden"))) {

  // The state of one call: PyTorch's values converted to the C interface. The functions of edgecore_host receive the
  // TorchCall as their edgecore_scope.
  class TorchCall {
   public:
    static TorchCall &of(edgecore_scope *scope) { return *reinterpret_cast<TorchCall *>(scope); }

    // Converts an argument of PyTorch to the C interface; the result is valid as long as this object.
    edgecore_value add(const c10::IValue &value) {
      edgecore_value result = {};
      if (value.isTensor()) {
        result.tag = value.toTensor().defined() ? EDGECORE_TAG_TENSOR : EDGECORE_TAG_NONE;
        if (value.toTensor().defined()) result.as.tensor = add_tensor(value.toTensor());
      } else if (value.isInt()) {
        result.tag = EDGECORE_TAG_INT;
        result.as.i = value.toInt();
      } else if (value.isDouble()) {
        result.tag = EDGECORE_TAG_DOUBLE;
        result.as.d = value.toDouble();
      } else if (value.isBool()) {
        result.tag = EDGECORE_TAG_BOOL;
        result.as.b = value.toBool() ? 1 : 0;
      } else if (value.isSymInt()) {
        result.tag = EDGECORE_TAG_INT;
        result.as.i = value.toSymInt().expect_int();
      } else if (value.isString()) {
        const std::string &text = strings_.emplace_back(value.toStringRef());
        result = list(EDGECORE_TAG_STRING, text.size());
        lists_.back().items.chars = text.data();
      } else if (value.isIntList()) {
        const std::vector<int64_t> &items = ints_.emplace_back(value.toIntVector());
        result = list(EDGECORE_TAG_INT_LIST, items.size());
        lists_.back().items.ints = items.data();
      } else if (value.isSymIntList()) {
        std::vector<int64_t> &items = ints_.emplace_back();
        for (const c10::SymInt &item : value.toSymIntVector()) items.push_back(item.expect_int());
        result = list(EDGECORE_TAG_INT_LIST, items.size());
        lists_.back().items.ints = items.data();
      } else if (value.isDoubleList()) {
        const std::vector<double> &items = doubles_.emplace_back(value.toDoubleVector());
        result = list(EDGECORE_TAG_DOUBLE_LIST, items.size());
        lists_.back().items.doubles = items.data();
      } else if (value.isBoolList()) {
        std::vector<uint8_t> &items = bools_.emplace_back();
        for (const bool item : value.toBoolList()) items.push_back(item ? 1 : 0);
        result = list(EDGECORE_TAG_BOOL_LIST, items.size());
        lists_.back().items.bools = items.data();
      } else if (value.isList()) {
        std::vector<edgecore_tensor *> &items = tensor_lists_.emplace_back();
        for (const c10::IValue &item : value.toListRef()) {
          items.push_back(item.isNone() ? nullptr : add_tensor(item.toTensor()));
        }
        result = list(EDGECORE_TAG_TENSOR_LIST, items.size());
        lists_.back().items.tensors = items.data();
      } else {
        TORCH_CHECK(value.isNone(), "a kernel of edgecore takes no argument of type ", value.tagKind());
      }
      return result;
    }

    // Runs a kernel. Throws a c10::Error with the kernel's message if the kernel fails.
    void run(const char *name, edgecore_kernel_fn kernel, const std::vector<edgecore_value> &args) {
      const edgecore_host host = host_table();
      const edgecore_call call = {{sizeof(edgecore_call), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR},
                                  &host,
                                  reinterpret_cast<edgecore_scope *>(this),
                                  args.data(),
                                  args.size(),
                                  sizeof(edgecore_value),
                                  0,
                                  reinterpret_cast<edgecore_error *>(&message_)};
      TORCH_CHECK(kernel(&call) == EDGECORE_OK, name, ": ", message_);
    }

   private:
    struct Entry {
      edgecore_tensor c = {};
      at::Tensor tensor;
      std::vector<uint8_t> order;

      void update() {
        const int64_t rank = tensor.dim();
        order.resize(static_cast<size_t>(rank));
        for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<uint8_t>(d);
        std::stable_sort(order.begin(), order.end(),
                         [this](uint8_t a, uint8_t b) { return tensor.stride(a) > tensor.stride(b); });
        c.header = {sizeof(edgecore_tensor), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
        c.flags = EDGECORE_TENSOR_RESIZABLE | EDGECORE_TENSOR_GROWABLE;
        c.scalar_type = static_cast<int32_t>(tensor.scalar_type());  // edgecore uses PyTorch's numbers
        c.dl.data = tensor.data_ptr();
        c.dl.device_type = EDGECORE_DEVICE_CPU;
        c.dl.ndim = static_cast<int32_t>(rank);
        c.dl.dtype = {code_of(tensor.scalar_type()), static_cast<uint8_t>(tensor.element_size() * 8), 1};
        c.dl.shape = const_cast<int64_t *>(tensor.sizes().data());
        c.dl.strides = const_cast<int64_t *>(tensor.strides().data());
        c.dim_order = order.data();
        c.max_shape = c.dl.shape;
        c.capacity = tensor.nbytes();
      }
    };

    static uint8_t code_of(c10::ScalarType type) {
      if (type == c10::ScalarType::Bool) return EDGECORE_DL_BOOL;
      if (type == c10::ScalarType::BFloat16) return EDGECORE_DL_BFLOAT;
      if (c10::isComplexType(type)) return EDGECORE_DL_COMPLEX;
      if (c10::isFloatingType(type)) return EDGECORE_DL_FLOAT;
      return c10::isSignedType(type) ? EDGECORE_DL_INT : EDGECORE_DL_UINT;
    }

    edgecore_tensor *add_tensor(const at::Tensor &tensor) {
      TORCH_CHECK(tensor.is_cpu(), "a kernel of edgecore takes tensors in host memory, not on ", tensor.device());
      Entry &entry = tensors_.emplace_back();
      entry.tensor = tensor;
      entry.update();
      return &entry.c;
    }

    edgecore_value list(uint32_t tag, size_t count) {
      edgecore_list &added = lists_.emplace_back();
      added.count = count;
      edgecore_value value = {};
      value.tag = tag;
      value.as.list = &added;
      return value;
    }

    static int32_t EDGECORE_CALL fail(edgecore_error *error, int32_t code, edgecore_str text) {
      if (error != nullptr) reinterpret_cast<std::string *>(error)->assign(text.data, static_cast<size_t>(text.size));
      return code;
    }
    static void EDGECORE_CALL log(edgecore_scope *, int32_t, edgecore_str text) {
      TORCH_WARN(std::string(text.data, static_cast<size_t>(text.size)));
    }
    static void *EDGECORE_CALL scratch(edgecore_scope *scope, uint64_t size, uint64_t alignment) {
      std::vector<std::unique_ptr<char[]>> &blocks = of(scope).scratch_;
      const uint64_t align = alignment == 0 ? 1 : alignment;
      if (align > SIZE_MAX || size > SIZE_MAX - align) return nullptr;
      blocks.emplace_back(new (std::nothrow) char[static_cast<size_t>(size + align)]);
      if (blocks.back() == nullptr) return nullptr;
      const auto address = reinterpret_cast<uintptr_t>(blocks.back().get());
      return reinterpret_cast<void *>((address + align - 1) / align * align);
    }
    static void EDGECORE_CALL parallel_for(edgecore_scope *, uint64_t n, uint64_t grain, edgecore_loop_fn fn, void *arg,
                                           uint32_t) {
      at::parallel_for(0, static_cast<int64_t>(n), static_cast<int64_t>(grain == 0 ? 1024 : grain),
                       [&](int64_t begin, int64_t end) {
                         fn(arg, static_cast<uint64_t>(begin), static_cast<uint64_t>(end),
                            static_cast<uint32_t>(at::get_thread_num()));
                       });
    }
    static uint32_t EDGECORE_CALL worker_count(edgecore_scope *) {
      return static_cast<uint32_t>(at::get_num_threads());
    }
    static uint32_t EDGECORE_CALL worker_index(edgecore_scope *) { return static_cast<uint32_t>(at::get_thread_num()); }
    static int32_t EDGECORE_CALL is_worker(edgecore_scope *) { return at::in_parallel_region() ? 1 : 0; }
    static int32_t EDGECORE_CALL named_data(edgecore_scope *, edgecore_str, edgecore_bytes *, edgecore_error *error) {
      return fail(error, EDGECORE_NOT_FOUND, {"PyTorch has no data of a file", 29});
    }
    static int32_t EDGECORE_CALL resize(edgecore_scope *scope, edgecore_tensor *tensor, const int64_t *shape,
                                        int32_t ndim, edgecore_error *error) {
      for (Entry &entry : of(scope).tensors_) {
        if (&entry.c != tensor) continue;
        const c10::IntArrayRef wanted(shape, static_cast<size_t>(ndim < 0 ? 0 : ndim));
        if (entry.tensor.sizes() == wanted) return EDGECORE_OK;
        entry.tensor.resize_(wanted);
        entry.update();
        return EDGECORE_OK;
      }
      return fail(error, EDGECORE_INVALID_ARGUMENT, {"resize was called for a tensor that is no argument", 50});
    }

    static edgecore_host host_table() {
      edgecore_host host = {};
      host.header = {sizeof(edgecore_host), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
      host.fail = fail;
      host.log = log;
      host.scratch = scratch;
      host.parallel_for = parallel_for;
      host.worker_count = worker_count;
      host.worker_index = worker_index;
      host.is_worker = is_worker;
      host.named_data = named_data;
      host.resize = resize;
      return host;
    }

    std::deque<Entry> tensors_;
    std::deque<edgecore_list> lists_;
    std::deque<std::string> strings_;
    std::deque<std::vector<int64_t>> ints_;
    std::deque<std::vector<double>> doubles_;
    std::deque<std::vector<uint8_t>> bools_;
    std::deque<std::vector<edgecore_tensor *>> tensor_lists_;
    std::vector<std::unique_ptr<char[]>> scratch_;
    std::string message_;
  };

  // Calls the kernel with the arguments that PyTorch put on the stack, followed by the outputs. Pushes the tensors that
  // the schema lists as results on the stack.
  template <auto function>
  void run_boxed(const c10::OperatorHandle &op, c10::Stack *stack) {
    const c10::FunctionSchema &schema = op.schema();
    const size_t count = schema.arguments().size();
    TorchCall call;
    std::vector<edgecore_value> args;
    std::vector<c10::IValue> written;
    for (size_t i = 0; i < count; ++i) {
      const c10::IValue &value = torch::jit::peek(*stack, i, count);
      args.push_back(call.add(value));
      const c10::AliasInfo *alias = schema.arguments()[i].alias_info();
      if (alias != nullptr && alias->isWrite()) written.push_back(value);
    }
    call.run(schema.name().c_str(), run<function>, args);
    TORCH_CHECK(schema.returns().size() <= written.size(), schema.name(), " must return tensors that it writes.");
    torch::jit::drop(*stack, count);
    const size_t first = written.size() - schema.returns().size();
    for (size_t i = first; i < written.size(); ++i) stack->push_back(written[i]);
  }

  // Calls the kernel with a new tensor as its out argument, and pushes that tensor on PyTorch's stack.
  template <auto function>
  void run_functional(const c10::OperatorHandle &op, c10::Stack *stack) {
    const size_t count = op.schema().arguments().size();
    TorchCall call;
    std::vector<edgecore_value> args;
    at::Tensor out;
    for (size_t i = 0; i < count; ++i) {
      const c10::IValue &value = torch::jit::peek(*stack, i, count);
      args.push_back(call.add(value));
      if (!out.defined() && value.isTensor() && value.toTensor().defined()) {
        out = at::empty({0}, value.toTensor().options());
      }
    }
    TORCH_CHECK(out.defined(), op.schema().name(), " needs a tensor, whose type its result gets.");
    args.push_back(call.add(out));
    call.run(op.schema().name().c_str(), run<function>, args);
    torch::jit::drop(*stack, count);
    stack->push_back(out);
  }

  // Returns the part of a schema that precedes its parameters, such as "multiply_add.out".
  inline std::string operator_of(const char *schema) {
    return {schema, static_cast<size_t>(parameters_of(schema) - schema)};
  }

}  // namespace kernel
}  // namespace edgecore

#define EDGECORE_TORCH_LIBRARY_(ns, schema, function, boxed)                                      \
  TORCH_LIBRARY_FRAGMENT(ns, library) {                                                           \
    library.def(schema);                                                                          \
    library.impl(::edgecore::kernel::operator_of(schema).c_str(),                                 \
                 torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd,                     \
                                 torch::CppFunction::makeFromBoxedFunction<boxed<&function>>())); \
  }
#define EDGECORE_TORCH_LIBRARY(ns, schema, function)                              \
  static_assert(::edgecore::kernel::matches<&function>(schema),                   \
                "the parameters of " #function " do not fit the schema " schema); \
  EDGECORE_TORCH_LIBRARY_(ns, schema, function, ::edgecore::kernel::run_boxed)    \
  static_assert(true, "so that a semicolon may follow")
#define EDGECORE_TORCH_FUNCTIONAL(ns, schema, function)                             \
  EDGECORE_TORCH_LIBRARY_(ns, schema, function, ::edgecore::kernel::run_functional) \
  static_assert(true, "so that a semicolon may follow")

#endif  // EDGECORE_TORCH_KERNEL_HPP_
