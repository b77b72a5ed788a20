// Chooses how each convolution is computed: directly, by XNNPACK, or in a Winograd form (winograd.h). The choice
// depends on the maximum sizes in the blob, on the options and on the instruction set, but not on the number of threads
// or on measured times, so results are the same in each run.
#ifndef EDGECORE_XNNPACK_CONVOLUTION_FORMS_H_
#define EDGECORE_XNNPACK_CONVOLUTION_FORMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "options.h"
#include "tiles.h"

namespace edgecore::xnnpack {

// The data types of a convolution: kFp32 if images and filter are fp32; kInt8 if images and filter are int8 with static
// scales.
enum ConvolutionType : uint64_t { kOtherType = 0, kFp32Type = 1, kInt8Type = 2 };

// The properties of a convolution that determine its form (direct or Winograd). describe.py passes the same numbers in
// the same order to the library's function describe_forms.
struct ConvolutionSize {
  uint64_t type;  // a ConvolutionType
  uint64_t kernel_height, kernel_width, stride_height, stride_width, dilation_height, dilation_width;
  uint64_t groups, channels, outputs;  // number of groups; input and output channels per group
  uint64_t batch, rows, columns;       // size of the output
  uint64_t bytes;                      // size of the filter in bytes
};

struct ConvolutionForm {
  uint32_t form = 0;     // 0: a direct convolution; 2 or 4: m of Winograd's F(m x m)
  bool is_int8 = false;  // the Winograd form is exact, of int8
  uint64_t growth = 0;   // bytes by which the packed weights exceed the filter
  Tile tile = {};        // direct fp32 convolution: output rows x columns that its kernel computes at a time
  std::string reason;    // reason why no larger F(m x m) computes the convolution; empty for the largest of its type
};

// Chooses the forms of all convolutions of a delegate. Their packed weights may grow by at most `limit` bytes in total:
// a layer whose F(4x4) would exceed the limit gets F(2x2) or, if that also exceeds it, the direct form. Layers with
// large images are chosen first: they gain the most time per byte.
std::vector<ConvolutionForm> choose_forms(const std::vector<ConvolutionSize> &layers, Winograd winograd,
                                          uint64_t limit);

// Describes how a convolution is computed, for example "Winograd F(2x2), weights + 112 KiB (16 tiles of 4x4, fewer than
// 20)", or "direct (window 1x1), tiles of 7x16".
std::string form_text(const ConvolutionForm &form);

// Returns a sentence with the number of convolutions per algorithm: Winograd F(4x4), F(2x2), both in int8, direct.
std::string summary_of(const std::vector<ConvolutionForm> &forms, uint64_t limit);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_CONVOLUTION_FORMS_H_
