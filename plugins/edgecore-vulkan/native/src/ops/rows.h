// Rows of a tensor (the elements along the dims that an operator reduces), for shaders that include rows.glsl.
#ifndef EDGECORE_VULKAN_OPS_ROWS_H_
#define EDGECORE_VULKAN_OPS_ROWS_H_

#include <string>
#include <vector>

#include "call.h"

namespace edgecore::vulkan {

// A dim, with its stride in elements of the input tensor.
struct Dim {
  int64_t size = 1;
  int64_t stride = 0;
};

struct Rows {
  int64_t count = 1;  // number of rows
  int64_t terms = 1;  // number of elements of a row
  // The dims along which rows differ (`kept`), and the dims within a row (`reduced`); the innermost dim is the last.
  // Each list has at least one dim, and adjacent dims that could be merged are merged.
  std::vector<Dim> kept, reduced;
};

// Returns the rows of a tensor: `kept` are the dims along which rows differ, `reduced` the dims within a row, each in
// the order in which the shader counts them.
Rows rows_of(const Call &call, const std::vector<Dim> &kept, const std::vector<Dim> &reduced);
// Returns the rows along some dims of `x`, in the order of the elements of `result`. `result` has the other dims of
// `x`, and either lacks the reduced dims or has them with size 1.
Rows rows_over(const Call &call, const Tensor &x, const std::vector<bool> &is_reduced, const Tensor &result);

// The elements that a thread reads at once: one element, four adjacent elements of a row, or one element each of four
// rows.
enum class RowVectors : uint8_t { kNone, kTerms, kRows };

// Returns which vectors of four a shader can read: kTerms if `may_use_terms` and sizes and strides allow it, else kRows
// if `may_use_rows` and sizes and strides allow it, else kNone.
RowVectors vectors_of(const Rows &rows, bool may_use_terms, bool may_use_rows);

// Adds a dispatch of a shader (variant `kind`) that computes a result for each row. The first of `read` is the input.
// `push` are the push constants that follow the push constants of the rows, `constants` the specialization constants
// from id 8 on.
void dispatch_rows(const Call &call, const char *shader, const char *kind, std::vector<Tensor> written,
                   std::vector<Tensor> read, Rows rows, RowVectors vectors, const std::vector<uint32_t> &push = {},
                   const std::vector<uint32_t> &constants = {});

// Returns a tensor in this dtype and layout: `x` itself, or a copy.
Tensor in_form(const Call &call, const Tensor &x, Dtype dtype, Layout layout);

// Returns, for each dim of a tensor with this rank, true if the list `dims` names it.
std::vector<bool> named_dims(const Call &call, const std::vector<int64_t> &dims, size_t rank);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_ROWS_H_
