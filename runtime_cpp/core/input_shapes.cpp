// Checks that the shape of each input is one that the program was exported for.
#include "core/method_impl.h"
#include "edgecore/scalar_type.h"

namespace edgecore {
namespace {

const DimMetas *dims_of_input(const MethodImpl &method, size_t index) {
  return method.meta == nullptr ? nullptr : dims_of(argument_at(method.meta->inputs(), index));
}

// Appends the number and the name of a tensor dim to an error message: "dim 0 ('batch')".
void append_dim(Error &error, uint32_t dim, const DimMetas *dims) {
  (void)extend(error, "dim ", dim);
  const StringView name = dims == nullptr ? StringView() : view_of(dims->Get(dim)->name());
  if (!name.empty()) (void)extend(error, " ('", name, "')");
}

Status refuse_dim(const MethodImpl &method, size_t index, uint32_t dim, int64_t min, int64_t max,
                  Span<const int64_t> shape, Error &error) {
  const DimMetas *dims = min == max ? nullptr : dims_of_input(method, index);
  if (dims != nullptr) max = max_of(*dims->Get(dim), max);
  name_input(method, index, error);
  append(error, ": ");
  append_dim(error, dim, dims);
  append(error, " must be ");
  if (min != max) {
    if (min == 0) {
      append(error, "at most ");
    } else {
      (void)extend(error, min, " to ");
    }
  }
  (void)extend(error, max);
  const int64_t multiple = dims == nullptr ? 1 : dims->Get(dim)->multiple();
  if (multiple != 1) {
    const int64_t rest = dims->Get(dim)->offset() % multiple;
    append(error, " and ");
    if (rest != 0) (void)extend(error, rest < 0 ? rest + multiple : rest, " more than ");
    (void)extend(error, "a multiple of ", multiple);
  }
  return extend(error, ", got ", shape[dim], " (shape ", shape, ").");
}

}  // namespace

void name_input(const MethodImpl &method, size_t index, Error &error) {
  name_input(method.owner->method(method.index), index, error);
}

void name_input(const MethodInfo &method, size_t index, Error &error) {
  (void)fail(error, EDGECORE_INVALID_ARGUMENT, "Input ");
  const StringView name = method.input_name(index);
  if (!name.empty()) (void)extend(error, "'", name, "' (");
  (void)extend(error, index, name.empty() ? "" : ")", " of method '", method.name(), "'");
}

size_t MethodImpl::symbol_count() const {
  int32_t count = 0;
  for (uint32_t i = 0; meta != nullptr && i < size_of(meta->inputs()); ++i) {
    const DimMetas *dims = dims_of(meta->inputs()->Get(i));
    for (uint32_t d = 0; d < size_of(dims); ++d) {
      if (dims->Get(d)->symbol() >= count) count = dims->Get(d)->symbol() + 1;
    }
  }
  return static_cast<size_t>(count);
}

Status MethodImpl::check_shape(size_t input, const edgecore_tensor &tensor, Span<const int64_t> shape,
                               Error &error) const {
  const Span<const int64_t> max_shape(tensor.max_shape, static_cast<size_t>(tensor.dl.ndim));
  const bool resizable = (tensor.flags & EDGECORE_TENSOR_RESIZABLE) != 0;
  if (shape.size() != max_shape.size()) {
    name_input(*this, input, error);
    return extend(error, " must have ", max_shape.size(), max_shape.size() == 1 ? " dim (" : " dims (",
                  resizable ? "at most " : "", max_shape, "), got shape ", shape, ".");
  }
  const DimMetas *dims = resizable ? dims_of_input(*this, input) : nullptr;
  for (uint32_t i = 0; i < shape.size(); ++i) {
    const fb::meta::Dim *dim = dims == nullptr ? nullptr : dims->Get(i);
    const int64_t min = dim != nullptr ? dim->min() : resizable ? 0 : max_shape[i];
    const bool fits = shape[i] >= min && shape[i] <= max_shape[i] && (dim == nullptr || is_multiple(*dim, shape[i]));
    if (!fits) return refuse_dim(*this, input, i, min, max_shape[i], shape, error);
  }
  return Status();
}

Status MethodImpl::check_relations(Error &error) {
  for (SymbolValue &symbol : bindings.symbols) symbol.known = false;
  const Span<const int32_t> inputs = span_of(plan->inputs());
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    const DimMetas *dims = dims_of_input(*this, i);
    const TensorSlot *slot = bindings.tensor_of[static_cast<size_t>(inputs[i])];
    for (uint32_t d = 0; d < size_of(dims); ++d) {
      const fb::meta::Dim &dim = *dims->Get(d);
      if (dim.symbol() < 0) continue;
      const int64_t size = slot->tensor.dl.shape[d];
      const int64_t value = (size - dim.offset()) / dim.multiple();
      SymbolValue &symbol = bindings.symbols[static_cast<size_t>(dim.symbol())];
      if (!symbol.known) symbol = {true, i, d, value};
      if (symbol.value == value) continue;
      name_input(*this, i, error);
      append(error, ": ");
      append_dim(error, d, dims);
      (void)extend(error, " must be ", symbol.value * dim.multiple() + dim.offset(), ", because ");
      const DimMetas *others = dims_of_input(*this, symbol.input);
      append_dim(error, symbol.dim, others);
      const fb::meta::Dim &other = *others->Get(symbol.dim);
      return extend(error, " of input '", name_of(argument_at(meta->inputs(), symbol.input)), "' is ",
                    symbol.value * other.multiple() + other.offset(), "; got ", size, ".");
    }
  }
  bindings.symbols_unchecked = false;
  return Status();
}

}  // namespace edgecore
