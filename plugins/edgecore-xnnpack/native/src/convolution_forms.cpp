#include "convolution_forms.h"

#include <algorithm>

#include "build.h"
#include "winograd.h"

namespace edgecore::xnnpack {

namespace {

constexpr uint64_t kMinChannels = 16;
// Winograd's algorithm computes only convolutions with at least this number of output tiles. The transformed filter is
// 1.8 or 4 times as large as the original, and is read from memory in each run. This pays only if the products of all
// tiles take longer than reading the filter. 16 tiles are too few on a processor with two AVX512 units: a layer with
// 256 channels at 14x14 took 1.5 ms with F(4x4) (16 tiles), but 0.8 ms with F(2x2) (49 tiles); 512 channels at 7x7
// gained nothing from F(2x2) (16 tiles).
constexpr uint64_t kMinTiles = 20;
// int8 layers gain more from few tiles of F(2x2), because direct convolutions in int8 take longer without VNNI.
constexpr uint64_t kMinInt8Tiles = 16;

std::string text(uint64_t number) { return std::to_string(number); }
std::string size_text(uint64_t height, uint64_t width) { return text(height) + "x" + text(width); }
std::string kib(uint64_t bytes) { return text(bytes >> 10) + " KiB"; }

// Returns the reason why Winograd's algorithm is unavailable for all convolutions; empty if there is no such reason.
std::string general_reason(Winograd winograd) {
  if (winograd == Winograd::kOff) return "winograd is off";
  if (!runs_parts()) return "the XNNPACK in this library cannot run a part of a graph";
  return "";
}

// Returns the reason why Winograd's algorithm cannot compute this convolution; empty if it can.
std::string layer_reason(const ConvolutionSize &layer) {
  if (layer.type == kFp32Type && winograd_target() == nullptr)
    return "there are no Winograd kernels for this processor";
  if (layer.type == kInt8Type && winograd_int8_target() == nullptr)
    return "int8 kernels of this processor are faster directly";
  if (layer.type == kOtherType) return "neither fp32 nor int8";
  if (layer.kernel_height != 3 || layer.kernel_width != 3) {
    return "window " + size_text(layer.kernel_height, layer.kernel_width);
  }
  if (layer.stride_height != 1 || layer.stride_width != 1) {
    return "stride " + size_text(layer.stride_height, layer.stride_width);
  }
  if (layer.dilation_height != 1 || layer.dilation_width != 1) {
    return "dilation " + size_text(layer.dilation_height, layer.dilation_width);
  }
  if (layer.groups != 1) return text(layer.groups) + " groups";
  if (std::min(layer.channels, layer.outputs) < kMinChannels) {
    return text(layer.channels) + " inputs and " + text(layer.outputs) + " outputs, " + text(kMinChannels) +
           " needed of each";
  }
  if (layer.type == kInt8Type && layer.channels > kMaxInt8Channels) {
    return text(layer.channels) + " inputs, more than " + text(kMaxInt8Channels);
  }
  return "";
}

// Returns the reason why Winograd's F(m x m) should not compute a convolution, though it could. If there is no reason,
// returns an empty string and sets `growth` to the bytes by which F(m x m) increases the weights.
std::string form_reason(uint32_t m, const ConvolutionSize &size, Winograd winograd, uint64_t rest, uint64_t *growth) {
  const bool is_int8 = size.type == kInt8Type;
  if (m == 4 && !is_int8 && winograd != Winograd::kOn) return "winograd is accurate";
  if (m == 4 && is_int8 && size.channels > kMaxInt8Channels4) {
    return text(size.channels) + " inputs, more than " + text(kMaxInt8Channels4) + " for 4x4";
  }
  WinogradLayer layer;
  layer.form = m;
  layer.batch = size.batch, layer.rows = size.rows, layer.columns = size.columns;
  layer.channels = size.channels, layer.outputs = size.outputs;
  const uint64_t tiles = winograd_tiles(layer);
  const uint64_t min = is_int8 && m == 2 ? kMinInt8Tiles : kMinTiles;
  if (tiles < min) return text(tiles) + " tiles of " + size_text(m, m) + ", fewer than " + text(min);
  // Refuse an image with fewer than m - 1 rows or columns: every m x m tile would extend beyond the edge of the image.
  if (std::min(size.rows, size.columns) < m - 1) return "an image of " + size_text(size.rows, size.columns);
  const WinogradTarget &target = is_int8 ? *winograd_int8_target() : *winograd_target();
  const uint64_t bytes = winograd_packed_bytes(target, layer);
  *growth = bytes - std::min(bytes, size.bytes);
  if (*growth <= rest) return "";
  return "F(" + size_text(m, m) + ") takes " + kib(*growth) + " more, winograd_memory has " + kib(rest) + " left";
}

}  // namespace

std::vector<ConvolutionForm> choose_forms(const std::vector<ConvolutionSize> &layers, Winograd winograd,
                                          uint64_t limit) {
  std::vector<ConvolutionForm> forms(layers.size());
  const std::string general = general_reason(winograd);
  std::vector<size_t> order;
  for (size_t i = 0; i < layers.size(); ++i) {
    forms[i].reason = general.empty() ? layer_reason(layers[i]) : general;
    if (forms[i].reason.empty()) order.push_back(i);
  }
  const auto pixels = [&](size_t i) { return layers[i].batch * layers[i].rows * layers[i].columns; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return pixels(a) > pixels(b); });
  for (size_t i : order) {
    const bool is_int8 = layers[i].type == kInt8Type;
    for (const uint32_t m : {4u, 2u}) {
      uint64_t growth = 0;
      const std::string reason = form_reason(m, layers[i], winograd, limit, &growth);
      if (reason.empty()) {
        forms[i].form = m, forms[i].is_int8 = is_int8, forms[i].growth = growth;
        limit -= growth;
        break;
      }
      forms[i].reason = reason;
    }
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    const ConvolutionSize &layer = layers[i];
    // Choose no tile for convolutions with one input and one output channel: for some of them XNNPACK has other
    // kernels, which have no tile of rows and columns.
    if (forms[i].form != 0 || layer.type != kFp32Type || (layer.channels == 1 && layer.outputs == 1)) continue;
    forms[i].tile = chosen_tile(layer.outputs, layer.stride_width * layer.groups * layer.channels * sizeof(float));
  }
  return forms;
}

std::string form_text(const ConvolutionForm &form) {
  const std::string name = form.form == 0 ? "direct"
                                          : "Winograd F(" + size_text(form.form, form.form) + ")" +
                                                (form.is_int8 ? " int8" : "") + ", weights + " + kib(form.growth);
  const std::string tile = form.tile.columns == 0 ? "" : ", tiles of " + tile_text(form.tile);
  return (form.reason.empty() ? name : name + " (" + form.reason + ")") + tile;
}

std::string summary_of(const std::vector<ConvolutionForm> &forms, uint64_t limit) {
  uint64_t counts[5] = {}, int8[5] = {}, growth = 0;
  for (const ConvolutionForm &form : forms) ++(form.is_int8 ? int8 : counts)[form.form], growth += form.growth;
  return text(forms.size()) + " convolutions: " + text(counts[4]) + " Winograd F(4x4), " + text(counts[2]) +
         " F(2x2), " + (int8[4] == 0 ? "" : text(int8[4]) + " F(4x4) int8, ") +
         (int8[2] == 0 ? "" : text(int8[2]) + " F(2x2) int8, ") + text(counts[0]) + " direct; packed weights grow by " +
         kib(growth) + " of " + kib(limit);
}

}  // namespace edgecore::xnnpack
