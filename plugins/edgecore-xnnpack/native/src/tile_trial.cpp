#include "tile_trial.h"

#include <cpuinfo.h>
#include <xnnpack.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <vector>

#include "hardware.h"
#include "nodes.h"
#include "xnnpack_generated.h"

namespace edgecore::xnnpack {

namespace {

using Clock = std::chrono::steady_clock;

// Microarchitectures that need no trial, because third_party/patches/16-f32-tiles.patch was measured on them.
constexpr uint32_t kMeasured[] = {cpuinfo_uarch_skylake_x, cpuinfo_uarch_zen4};

// The layers that the trial times: convolutions of 10 to 14 million multiply-adds, 0.2 ms each on a core with one
// AVX512 unit. The input rows of the first layer are a multiple of 4 KiB apart, so they map to the same set in most L1
// caches. With AVX512, XNNPACK computes tiles of 32 columns (output channels) at a time, but tiles of 16 for the 48
// output channels of the last layer, because 48 is not a multiple of 32.
constexpr struct {
  size_t size, kernel, channels, outputs;
} kLayers[] = {{14, 1, 1024, 64}, {28, 1, 128, 128}, {14, 3, 128, 64}, {28, 1, 256, 48}};

// Number of times that the trial runs each layer; the first run brings the layer's data into the caches. After kMaxTime
// the trial begins no further round of runs, so that it ends soon on a slow or busy processor.
constexpr int kRounds = 3;
constexpr std::chrono::milliseconds kMaxTime{30};

// The trial keeps XNNPACK's number of rows unless another number takes less than this fraction of the time. The times
// of two trials differ by about 1 % on a quiet processor.
constexpr double kGain = 0.98;

// A convolution with zero weights, which was created while a ForcedTile object made XNNPACK use a certain tile.
class Layer {
 public:
  explicit Layer(size_t index) {
    const auto &layer = kLayers[index];
    const auto border = static_cast<uint32_t>(layer.kernel / 2), kernel = static_cast<uint32_t>(layer.kernel);
    const std::vector<float> filter(layer.outputs * layer.kernel * layer.kernel * layer.channels);
    input_.resize(layer.size * layer.size * layer.channels + XNN_EXTRA_BYTES / sizeof(float));
    output_.resize(layer.size * layer.size * layer.outputs);
    xnn_operator_t made = nullptr;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    xnn_status status = xnn_create_convolution2d_nhwc_f32(
        border, border, border, border, kernel, kernel, 1, 1, 1, 1, 1, layer.channels, layer.outputs, layer.channels,
        layer.outputs, filter.data(), nullptr, -kInfinity, kInfinity, 0, nullptr, nullptr, &made);
    operator_.reset(made);
    size_t bytes = 0, alignment = 0, height = 0, width = 0;
    if (status == xnn_status_success) {
      status = xnn_reshape_convolution2d_nhwc_f32(made, 1, layer.size, layer.size, &bytes, &alignment, &height, &width,
                                                  nullptr);
    }
    workspace_.resize(bytes / sizeof(std::max_align_t) + 1);
    if (status == xnn_status_success) {
      status = xnn_setup_convolution2d_nhwc_f32(made, workspace_.data(), input_.data(), output_.data());
    }
    is_ready_ = status == xnn_status_success;
  }

  bool is_ready() const { return is_ready_; }

  // Runs the layer, and keeps the minimum time of all runs in `time_`.
  void run() {
    const auto begin = Clock::now();
    xnn_run_operator(operator_.get(), nullptr);
    time_ = std::min(time_, std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }

  double microseconds() const { return time_; }

 private:
  struct Delete {
    void operator()(xnn_operator_t made) const { xnn_delete_operator(made); }
  };
  std::vector<float> input_, output_;
  std::vector<std::max_align_t> workspace_;
  std::unique_ptr<xnn_operator, Delete> operator_;
  bool is_ready_ = false;
  double time_ = std::numeric_limits<double>::infinity();
};

// A number of rows per tile that the trial measures (0: XNNPACK's choice), and the convolutions that use this number.
struct Candidate {
  uint32_t rows;
  std::vector<Layer> layers;

  double microseconds() const {
    double sum = 0;
    for (const Layer &layer : layers) sum += layer.microseconds();
    return sum;
  }
};

// Returns the numbers of rows per tile to try on this processor; none if there is no choice, because no two tiles have
// the same number of columns.
std::vector<uint32_t> row_choices() {
  std::vector<uint32_t> choices;
  const std::vector<Tile> all = tiles();
  for (size_t i = 0; i < all.size(); ++i) {
    const auto has_width = [&](const Tile &tile) { return tile.columns == all[i].columns; };
    const bool is_known = std::find(choices.begin(), choices.end(), all[i].rows) != choices.end();
    if (!is_known && std::count_if(all.begin(), all.end(), has_width) > 1) choices.push_back(all[i].rows);
  }
  return choices;
}

bool has_fp32_layer(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node &node) {
    const uint8_t id = node.kind->id;
    return (id == wire::NodeUnion_Conv2d || id == wire::NodeUnion_ConvTranspose2d ||
            id == wire::NodeUnion_FullyConnected) &&
           input_value(graph, node, 0).type == Type::kFp32 && input_value(graph, node, 1).type == Type::kFp32;
  });
}

// Times the layers with each number of rows per tile. Returns the fastest number and sets `report`. Throws
// backend::Failure if a layer cannot be created.
uint32_t try_rows(const std::vector<uint32_t> &choices, std::string *report) {
  const auto begin = Clock::now();
  std::vector<Candidate> candidates;
  candidates.push_back({0, {}});
  for (const uint32_t rows : choices) candidates.push_back({rows, {}});
  for (Candidate &candidate : candidates) {
    const ForcedTile forced({candidate.rows, 0});
    for (size_t i = 0; i < std::size(kLayers); ++i) {
      candidate.layers.emplace_back(i);
      if (!candidate.layers.back().is_ready()) {
        backend::fail(EDGECORE_MEMORY_ALLOCATION_FAILED, "no memory for the layers of the trial of tiles");
      }
    }
  }
  for (int round = 0; round < kRounds && (round == 0 || Clock::now() - begin < kMaxTime); ++round) {
    for (Candidate &candidate : candidates) {
      for (Layer &layer : candidate.layers) layer.run();
    }
  }
  const Candidate *best = candidates.data();
  double min_time = candidates[0].microseconds() * kGain;
  std::string times;
  for (const Candidate &candidate : candidates) {
    const double time = candidate.microseconds();
    const std::string name = candidate.rows == 0 ? "as chosen" : std::to_string(candidate.rows);
    times += (times.empty() ? "" : ", ") + name + " " + std::to_string(static_cast<int64_t>(time)) + " us";
    if (candidate.rows != 0 && time < min_time) best = &candidate, min_time = time;
  }
  *report = "by a trial of rows (" + times + ")";
  return best->rows;
}

}  // namespace

Tile tried_tile(const Graph &graph, Store *store, std::string *report) {
  const uint32_t uarch = hardware_in_force().uarch;
  const bool is_measured = std::find(std::begin(kMeasured), std::end(kMeasured), uarch) != std::end(kMeasured);
  if (is_measured || !has_folder(store) || !has_fp32_layer(graph)) return {};
  const std::vector<uint32_t> choices = row_choices();
  if (choices.empty()) return {};
  *report = "as an earlier trial found";
  const uint64_t rows = find_measurement(store, "rows of tiles", [&] { return try_rows(choices, report); });
  const Tile tile = {static_cast<uint32_t>(std::min<uint64_t>(rows, UINT8_MAX)), 0};
  *report = "tiles of fp32 layers: " +
            (tile.rows == 0 ? "rows as XNNPACK chooses" : "at most " + std::to_string(tile.rows) + " rows") + ", " +
            *report;
  return tile;
}

}  // namespace edgecore::xnnpack
