// Tunable sizes of shaders, such as rows per thread, which change the speed of shaders but not their results. They are
// the defaults, or the fastest sizes that were measured on a device.
#ifndef EDGECORE_VULKAN_TUNING_H_
#define EDGECORE_VULKAN_TUNING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace edgecore::vulkan {

class ShaderDevice;

struct Tuning {
  // Number of threads in a workgroup, for shaders whose threads share few loads. It is small, so that even a small
  // tensor has enough workgroups for all cores of a CPU.
  uint32_t group_threads = 32;
  // Number of rows that a thread of shader gemm computes with shuffles and a long loop. 0 means 14 or 16, whichever
  // wastes fewer rows.
  uint32_t gemm_rows = 0;
  // Number of rows that a thread of shader gemm_tiled computes.
  uint32_t tiled_rows = 8;
};

// A member of Tuning and the values to measure for it.
struct Choice {
  uint32_t Tuning::*member;
  std::vector<uint32_t> values;
};
const std::vector<Choice> &choices();

// to_bytes returns the content of a tuning's file. tuning_of parses it, and returns nothing if a value is not among the
// choices.
std::vector<uint8_t> to_bytes(const Tuning &tuning);
std::optional<Tuning> tuning_of(const std::vector<uint8_t> &bytes);

// Sets a device's tuning from the file for the device and its driver in `folder`. If there is no file, measures layers
// with all values, which takes about a second, and stores the fastest tuning. An empty `folder` disables the file.
// Throws a Failure if the device fails; ignores errors of the file system.
void tune(ShaderDevice &device, const std::string &folder);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_TUNING_H_
