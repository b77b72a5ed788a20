// classify MODEL.pte LABELS.txt PICTURE.ppm: prints the three most probable classes of a picture. The model takes a
// picture [1, channels, height, width] with values from 0 to 1 and gives a score for each line of the labels.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>

#include "edgecore/module.h"
#include "picture.h"

using edgecore::Error;
using edgecore::Module;
using edgecore::Status;
using edgecore::StringView;
using edgecore::Tensor;

namespace {

Status classify(const char *model, const std::vector<std::string> &labels, const Picture &picture, Error &error) {
  Module module;
  EDGECORE_TRY(module.open(model, error));
  for (const StringView id : module.missing_backends()) {  // finds linked backends, and libraries with a manifest
    EDGECORE_TRY(module.find_backend(id, edgecore::backend_path(), {}, error));
  }
  EDGECORE_TRY(module.load_methods({}, error));
  const edgecore::MethodInfo info = module.method(0).info();
  const edgecore::TensorInfo wanted = info.input(0).tensor;
  const std::vector<int64_t> shape(wanted.sizes.begin(), wanted.sizes.end());
  if (wanted.scalar_type != edgecore::scalar_type_of<float>() || shape.size() != 4 || shape[0] != 1 ||
      (shape[1] != 1 && shape[1] != 3)) {
    return edgecore::fail(error, EDGECORE_INVALID_ARGUMENT, model, " does not take one picture of float32.");
  }
  Tensor input(wanted.scalar_type, shape);
  fill_input(picture, static_cast<size_t>(shape[1]), static_cast<size_t>(shape[2]), static_cast<size_t>(shape[3]),
             input.values<float>().begin());

  const auto start = std::chrono::steady_clock::now();
  std::vector<Tensor> outputs;
  EDGECORE_TRY(module.run(info.name(), {input}, outputs, error));
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  const auto scores = outputs[0].values<float>();
  if (scores.size() != labels.size()) {
    return edgecore::fail(error, EDGECORE_INVALID_ARGUMENT, model, " has ", scores.size(), " classes, but there are ",
                          labels.size(), " labels.");
  }

  const float max = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (const float score : scores) sum += std::exp(score - max);
  std::vector<size_t> order(labels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t count = std::min<size_t>(3, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  for (size_t i = 0; i < count; ++i) {
    const float probability = std::exp(scores[order[i]] - max) / sum;
    std::printf("%5.1f %%  %s\n", static_cast<double>(100 * probability), labels[order[i]].c_str());
  }
  std::printf("%.1f ms\n", time.count());
  return {};
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: classify MODEL.pte LABELS.txt PICTURE.ppm\n");
    return 2;
  }
  std::vector<std::string> labels;
  std::ifstream file(argv[2]);
  for (std::string line; std::getline(file, line);) labels.push_back(line);
  Picture picture;
  const std::string problem = read_ppm(argv[3], picture);
  if (!problem.empty()) {
    std::fprintf(stderr, "%s\n", problem.c_str());
    return 1;
  }
  Error error;
  if (classify(argv[1], labels, picture, error).ok()) return 0;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(error.size), error.text);
  return 1;
}
