// Test programs whose metadata have input names and symbolic sizes.
#ifndef EDGECORE_TESTS_INPUT_METAS_H_
#define EDGECORE_TESTS_INPUT_METAS_H_

#include "loaded.h"

namespace edgecore {

inline TensorOptions bounded() {
  TensorOptions options;
  options.dynamism = fb::TensorShapeDynamism::DYNAMIC_BOUND;
  return options;
}

// Builds a program that returns 3 x. Its inputs have symbolic sizes: x [b, 3], y [8 s, 3] and z [b + 1] with b from 4
// to 8; the maximum shapes are [8, 3], [32, 3] and [9].
inline PteBuilder three_inputs() {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({8, 3}, bounded());
  const int32_t y = pte.add_tensor({32, 3}, bounded());
  const int32_t z = pte.add_tensor({9}, bounded());
  const int32_t out = pte.add_tensor({8, 3}, bounded());
  pte.kernel(pte.add_operator("test::scale", "out"), {x, pte.add_int(3), out, out});
  pte.inputs = {x, y, z};
  pte.outputs = {out};
  pte.input_metas = {{"x", {{"b", 4, 0}, {"", 3}}}, {"y", {{"8*s", 8, 1, 8}, {"", 3}}}, {"z", {{"b + 1", 5, 0, 1, 1}}}};
  pte.output_metas = {{"logits", {{"b", 4, 0}, {"", 3}}}};
  return pte;
}

inline std::vector<uint8_t> finished(PteBuilder pte) {
  pte.add_meta({}, "", {});
  return pte.finish();
}

}  // namespace edgecore

#endif  // EDGECORE_TESTS_INPUT_METAS_H_
