// run MODEL.pte: runs the method `forward` on tensors of ones, prints the outputs, and writes a trace to
// MODEL.pte.etdp.
#include <cstdio>
#include <string>

#include "edgecore/module.h"

using edgecore::Error;
using edgecore::Module;
using edgecore::Status;
using edgecore::StringView;
using edgecore::Tensor;

namespace {

Status run(const char *path, Error &error) {
  Module module;
  EDGECORE_TRY(module.open(path, error));
  for (const StringView id :
       module.missing_backends()) {  // looks for manifests in the folders of EDGECORE_BACKEND_PATH
    EDGECORE_TRY(module.find_backend(id, edgecore::backend_path(), {}, error));
  }
  edgecore::MethodOptions options;
  options.threads = 2;
  options.trace = true;
  EDGECORE_TRY(module.load_methods(options, error));

  const auto index = module.program().find_method("forward", error);
  EDGECORE_TRY(index.status());
  const edgecore::MethodInfo info = module.program().method(*index);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < info.input_count(); ++i) {
    const edgecore::TensorInfo tensor = info.input(i).tensor;
    Tensor input(tensor.scalar_type, {tensor.sizes.begin(), tensor.sizes.end()});
    for (float &value : input.values<float>()) value = 1;
    inputs.push_back(input);
  }
  std::vector<Tensor> outputs;
  EDGECORE_TRY(module.run("forward", inputs, outputs, error));
  for (const Tensor &output : outputs) {
    for (const float value : output.values<float>()) std::printf("%.6g ", static_cast<double>(value));
    std::printf("\n");
  }
  return module.write_trace((std::string(path) + ".etdp").c_str(), error);
}

}  // namespace

int main(int argc, char **argv) {
  Error error;
  if (argc == 2 && run(argv[1], error).ok()) return 0;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(error.size), error.text);
  return 1;
}
