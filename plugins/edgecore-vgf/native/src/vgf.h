// Reads a VGF file, the blob of a delegate: a SPIR-V graph with its constants, inputs and outputs. docs/internals.md
// describes the format.
#ifndef EDGECORE_VGF_VGF_H_
#define EDGECORE_VGF_VGF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "edgecore/backend.hpp"

namespace edgecore::vgf {

// A tensor of a graph. `format` is a VkFormat.
struct Tensor {
  uint32_t format = 0;
  std::vector<int64_t> shape;  // shape as in the model; the Vulkan tensor of a scalar (no dims) has the shape {1}
  edgecore_dl_dtype dtype = {};
  uint64_t bytes = 0;
};

// An input or output of a graph, with the set and binding of its Vulkan descriptor.
struct Argument {
  Tensor tensor;
  uint32_t set = 0;
  uint32_t binding = 0;
};

// A constant of a graph; `data` points into the blob.
struct Constant {
  Tensor tensor;
  edgecore_bytes data = {};
};

struct Vgf {
  std::vector<uint32_t> spirv;
  std::string entry_point;
  std::vector<Argument> inputs, outputs;
  std::vector<size_t> results;  // for each result of the model, its index in `outputs`; equal results share one output
  std::vector<Constant> constants;
  uint32_t descriptor_sets = 0;
};

// Reads a blob, and checks its offsets and numbers, but not the SPIR-V code, which the Vulkan driver checks. Throws a
// Failure if the blob is damaged, or has features that this delegate does not support.
Vgf read_vgf(edgecore_bytes blob);

}  // namespace edgecore::vgf

#endif  // EDGECORE_VGF_VGF_H_
