// Runs a file on the C++ libraries of executorch's wheel for 64-bit Arm, with one thread. The arguments are those that
// count.py passes to edgecore-run: FILE.pte --runs N --input FILE.npy... [--output FILE]. Each input is a NumPy file of
// float32 or int64. The output file receives the bytes of the first output of the last run.
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor_ptr.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace executorch::extension::threadpool {
class ThreadPool {  // the wheel has the library, but not this header
 public:
  bool _unsafe_reset_threadpool(uint32_t threads);
};
ThreadPool *get_threadpool();
}  // namespace executorch::extension::threadpool

namespace {

namespace extension = executorch::extension;
using executorch::aten::ScalarType;

[[noreturn]] void fail(const std::string &what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

extension::TensorPtr read_npy(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.size() < 10) fail(path + " is no file of NumPy");
  const size_t length = static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
  const std::string header = bytes.substr(10, length);
  const bool floats = header.find("'<f4'") != std::string::npos;
  if (!floats && header.find("'<i8'") == std::string::npos) fail(path + " holds neither fp32 nor int64");
  std::vector<executorch::aten::SizesType> sizes;
  const char *cursor = header.c_str() + header.find('(', header.find("'shape'")) + 1;
  while (*cursor != ')') {
    char *end = nullptr;
    sizes.push_back(static_cast<int32_t>(std::strtol(cursor, &end, 10)));
    for (cursor = end; *cursor == ',' || *cursor == ' ';) ++cursor;
  }
  const char *data = bytes.data() + 10 + length;
  return extension::make_tensor_ptr(std::move(sizes), std::vector<uint8_t>(data, bytes.data() + bytes.size()),
                                    floats ? ScalarType::Float : ScalarType::Long);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 2) fail("peer FILE.pte [--runs N] [--input FILE.npy]... [--output FILE]");
  int runs = 1;
  std::string output;
  std::vector<extension::TensorPtr> inputs;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--runs") runs = std::atoi(argv[i + 1]);
    if (option == "--input") inputs.push_back(read_npy(argv[i + 1]));
    if (option == "--output") output = argv[i + 1];
  }
  extension::threadpool::get_threadpool()->_unsafe_reset_threadpool(1);
  extension::Module module(argv[1], extension::Module::LoadMode::Mmap);
  std::vector<executorch::runtime::EValue> values(inputs.begin(), inputs.end());
  for (int run = 0; run < runs; ++run) {
    const auto result = module.forward(values);
    if (!result.ok()) fail("executorch failed with error " + std::to_string(static_cast<int>(result.error())));
    if (output.empty() || run + 1 < runs) continue;
    const auto &tensor = result->at(0).toTensor();
    std::ofstream(output, std::ios::binary)
        .write(static_cast<const char *>(tensor.const_data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
  }
}
