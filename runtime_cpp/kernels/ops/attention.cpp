// Scaled dot product attention: output = softmax(scale query key^T + mask) value. This kernel reads keys and values in
// place. PyTorch's decomposition scales, transposes and repeats both in copies, and so copies the whole KV cache of a
// model in each step.
#include "lib/convert.h"
#include "lib/gemm.h"
#include "lib/vector.h"
#include "ops/softmax.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// The sizes of an attention call. Query heads that share a key head are computed together: their rows form one matrix.
struct Sizes {
  int64_t heads = 1;  // number of heads of keys and values, multiplied by the batch size
  int64_t rows = 0;   // number of query rows that share a head of keys
  int64_t tokens = 0;
  int64_t keys = 0;
  int64_t width = 0;
  int64_t value_width = 0;
};

// The sizes of the mask, and its steps along the dims of the scores [..., heads, tokens, keys]. A step is the number of
// mask elements from one index of the dim to the next; 0 for a dim to which the mask broadcasts.
struct Mask {
  Shape scores;
  int64_t steps[kMaxDims] = {};
  int64_t rows = 0;   // number of rows of the attention mask
  int64_t width = 0;  // length of a row of the attention mask: the number of keys, or 1

  // Returns the offset in the mask of row number `row` of the scores.
  int64_t row(int64_t row) const {
    int64_t offset = 0;
    for (int d = scores.ndim - 2; d >= 0; --d) {
      offset += row % scores.sizes[d] * steps[d];
      row /= scores.sizes[d];
    }
    return offset;
  }
};

// Checks the shapes, and sets `sizes`. Several consecutive query heads may share one head of keys and values.
bool sizes_of(Call &call, Tensor query, Tensor key, Tensor value, Sizes *sizes) {
  const int n = query.ndim();
  bool fits = n >= 2 && key.ndim() == n && value.ndim() == n && query.size(n - 1) == key.size(n - 1) &&
              key.size(n - 2) == value.size(n - 2);
  int64_t group = 1;
  for (int d = 0; fits && d < n - 2; ++d) {
    fits = key.size(d) == value.size(d);
    if (fits && d == n - 3 && key.size(d) != 0) {
      fits = query.size(d) % key.size(d) == 0;
      group = query.size(d) / key.size(d);
    } else {
      fits = fits && query.size(d) == key.size(d);
    }
    sizes->heads *= key.size(d);
  }
  if (!fits) {
    call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "query " << query.shape() << ", key " << key.shape()
                                                   << " and value " << value.shape() << " do not fit together");
    return false;
  }
  sizes->tokens = query.size(n - 2);
  sizes->rows = group * sizes->tokens;
  sizes->keys = key.size(n - 2);
  sizes->width = key.size(n - 1);
  sizes->value_width = value.size(n - 1);
  return true;
}

// Checks that the mask broadcasts to the scores, and sets the sizes and steps in `result`.
bool mask_of(Call &call, Tensor query, int64_t keys, Tensor mask, Mask *result) {
  result->scores = query.shape();
  const int n = query.ndim();
  result->scores.sizes[n - 1] = keys;
  if (mask.t == nullptr) return true;
  bool fits = mask.ndim() <= n;
  int64_t step = 1;
  for (int i = 1; fits && i <= mask.ndim(); ++i) {
    const int64_t size = mask.size(mask.ndim() - i);
    fits = size == 1 || size == result->scores.sizes[n - i];
    result->steps[n - i] = size == 1 ? 0 : step;
    step *= size;
  }
  result->width = mask.ndim() == 0 ? 1 : mask.size(mask.ndim() - 1);
  result->rows = result->width == 0 ? 0 : mask.numel() / result->width;
  if (!fits) {
    call.fail(EDGECORE_INVALID_ARGUMENT,
              Message() << "the mask " << mask.shape() << " does not broadcast to the scores " << result->scores);
  }
  return fits;
}

// The computation of one call. `mask` is NULL if the call has no mask; a mask of booleans is an array of numbers 0 and
// 1.
template <class C>
class Attention {
 public:
  Attention(const Sizes &sizes, const Mask &layout, const C *mask, bool is_bool, bool is_causal)
      : sizes_(sizes), layout_(layout), mask_(mask), is_bool_(is_bool), is_causal_(is_causal) {}

  void run(Call &call, const C *query, const C *key, const C *value, C scale, C *out) const {
    const Sizes &s = sizes_;
    const int64_t visible = visible_keys();
    int64_t count = 0;
    if (__builtin_mul_overflow(s.heads * s.rows, visible, &count) || count > INT64_MAX / 8) {
      call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "too many scores");
      return;
    }
    C *scores = call.scratch<C>(count);
    if (call.failed()) return;
    gemm<C>(call, s.heads, s.rows, visible, s.width, scale, {query, s.width, false}, s.rows * s.width,
            {key, s.width, true}, s.keys * s.width, {scores, false}, s.rows * visible);
    call.parallel(s.heads * s.rows, 8192 / (visible + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
      for (int64_t i = begin; i < end && visible != 0; ++i) weigh_row(i, visible, scores + i * visible);
    });
    gemm<C>(call, s.heads, s.rows, s.value_width, visible, 1, {scores, visible, false}, s.rows * visible,
            {value, s.value_width, false}, s.keys * s.value_width, {out, false}, s.rows * s.value_width);
  }

 private:
  bool is_hidden(C entry) const { return is_bool_ ? entry == 0 : entry == static_cast<C>(-kInfinity); }

  // Returns the number of keys up to the last one that any query row attends to. Later keys and values are not read, so
  // that the time depends on the used part of a KV cache and not on its capacity.
  int64_t visible_keys() const {
    if (is_causal_) return min_of(sizes_.keys, sizes_.tokens);
    if (mask_ == nullptr) return sizes_.keys;
    int64_t visible = 0;
    for (int64_t i = 0; i < layout_.rows; ++i) {
      int64_t count = layout_.width;
      while (count > visible && is_hidden(mask_[i * layout_.width + count - 1])) --count;
      visible = max_of(visible, count);
    }
    return visible == layout_.width ? sizes_.keys : visible;
  }

  // Applies the mask to a row of scores and computes its softmax in place. As in PyTorch, a row that attends to no key
  // becomes 0.
  void weigh_row(int64_t index, int64_t visible, C *row) const {
    const C hidden = static_cast<C>(-kInfinity);
    if (is_causal_) {
      for (int64_t k = index % sizes_.tokens + 1; k < visible; ++k) row[k] = hidden;
    }
    const int64_t step = layout_.steps[layout_.scores.ndim - 1];
    const C *mask = mask_ == nullptr ? nullptr : mask_ + layout_.row(index);
    for (int64_t k = 0; mask != nullptr && k < visible; ++k) {
      row[k] = !is_bool_ ? row[k] + mask[k * step] : mask[k * step] == 0 ? hidden : row[k];
    }
    const C max = max_entry(row, visible);
    if (max == hidden) {
      for (int64_t k = 0; k < visible; ++k) row[k] = 0;
    } else {
      softmax_row(row, row, visible, max);
    }
  }

  const Sizes &sizes_;
  const Mask &layout_;
  const C *mask_;
  bool is_bool_;
  bool is_causal_;
};

}  // namespace

// Computes edgecore::scaled_dot_product_attention(query, key, value, attn_mask, is_causal, scale). query is [...,
// heads, tokens, width], key [..., key heads, keys, width], value [..., key heads, keys, value width]. attn_mask is a
// tensor of booleans (true: the token attends to the key), a tensor of numbers that are added to the scores, or None.
int32_t attention_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::scaled_dot_product_attention.out");
  const Tensor query = call.tensor(0);
  const Tensor key = call.tensor(1);
  const Tensor value = call.tensor(2);
  const Tensor mask = call.optional_tensor(3);
  const bool is_causal = call.flag(4);
  const double scale = call.real(5);
  const Tensor out = call.tensor(6);
  if (call.failed()) return call.status();
  const Type type = query.type();
  const bool has_mask = mask.t != nullptr;
  Sizes sizes;
  Mask layout;
  if (!call.check(is_floating(type) && key.type() == type && value.type() == type,
                  "query, key and value must have the same floating dtype") ||
      !call.check(!has_mask || mask.type() == Type::kBool || mask.type() == type,
                  "the mask must be bool or have the dtype of the query") ||
      !call.check(!has_mask || !is_causal, "a mask and is_causal exclude each other") || !call.check_cast(type, out) ||
      !sizes_of(call, query, key, value, &sizes)) {
    return call.status();
  }
  Shape shape = query.shape();
  shape.sizes[shape.ndim - 1] = sizes.value_width;
  // Check the mask only if the output has elements, because PyTorch ignores the mask of an empty output.
  if (!call.resize(out, shape) || out.numel() == 0 || !mask_of(call, query, sizes.keys, mask, &layout)) {
    return call.status();
  }
  with_floating_compute(type, [&](auto c) {
    using C = decltype(c);
    const C *queries = dense<C>(call, query);
    const C *keys = dense<C>(call, key);
    const C *values = dense<C>(call, value);
    const C *terms = has_mask ? dense<C>(call, mask) : nullptr;
    const DenseOut<C> result(call, out);
    if (call.failed()) return;
    const Attention<C> attention(sizes, layout, terms, has_mask && mask.type() == Type::kBool, is_causal);
    attention.run(call, queries, keys, values, static_cast<C>(scale), result.data());
    result.finish(call);
  });
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
