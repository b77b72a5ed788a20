// Runs kernels for tests in a separate process, which may run in an emulator: tests/kernels/emulated_library.py sends
// calls to the standard input of this process and reads the results from its standard output. Numbers have the
// processor's byte order, which both sides share.
//
// The process first writes the number of its kernels and their names. A call consists of: the name of the kernel; the
// number of workers; 1 to refuse the first block of scratch memory, otherwise 0; the blocks of memory; the tensors; the
// values. The answer consists of: the error code and message; the blocks; the tensors' blocks, offsets, sizes and
// strides; the values' tags and numbers. Counts, lengths, tags and indices have 32 bits, sizes and other numbers 64.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "edgecore/kernels.h"

extern "C" {
void edgecore_kernels_test_refuse_scratch(bool first);
int32_t edgecore_kernels_test_call(edgecore_kernel_fn kernel, const edgecore_value *args, uint64_t count,
                                   uint32_t workers, char *text);
}

namespace {

constexpr uint32_t kNull = ~uint32_t{0};

void read_bytes(void *target, size_t size) {
  if (size > 0 && std::fread(target, size, 1, stdin) != 1) std::exit(0);  // the tests have ended
}

template <class T>
T read() {
  T value;
  read_bytes(&value, sizeof(value));
  return value;
}

std::string read_text() {
  std::string text(read<uint32_t>(), '\0');
  read_bytes(&text[0], text.size());
  return text;
}

void write_bytes(const void *source, size_t size) {
  if (size > 0 && std::fwrite(source, size, 1, stdout) != 1) std::exit(1);
}

template <class T>
void write(T value) {
  write_bytes(&value, sizeof(value));
}

void write_text(const std::string &text) {
  write(static_cast<uint32_t>(text.size()));
  write_bytes(text.data(), text.size());
}

std::string name_of(const edgecore_kernel &kernel) {
  const std::string overload(kernel.overload.data, kernel.overload.size);
  return std::string(kernel.name.data, kernel.name.size) + (overload.empty() ? "" : "." + overload);
}

// A copy of a block of the caller's memory. The address of the copy has the same remainder modulo 64 as the original,
// so that kernels see the same alignment.
struct Block {
  std::vector<uint8_t> memory;
  uint8_t *data = nullptr;
  size_t size = 0;
};

struct Tensor {
  edgecore_tensor native = {};
  std::vector<int64_t> shape, strides, max_shape;
  std::vector<uint8_t> order;
};

struct List {
  edgecore_list native = {};
  std::string bytes;
  std::vector<int64_t> words;
  std::vector<edgecore_tensor *> tensors;
};

// One call, with all memory that its values point to.
class Request {
 public:
  void run(const edgecore_kernel_library &library) {
    const std::string name = read_text();
    const auto workers = read<uint32_t>();
    edgecore_kernels_test_refuse_scratch(read<uint32_t>() != 0);
    read_blocks();
    read_tensors();
    read_values();
    char text[600] = "the library has no such kernel";
    int32_t code = EDGECORE_NOT_FOUND;
    for (uint64_t i = 0; i < library.kernel_count; ++i) {
      if (name_of(library.kernels[i]) != name) continue;
      code = edgecore_kernels_test_call(library.kernels[i].run, values_.data(), values_.size(), workers, text);
    }
    write(code);
    write_text(text);
    for (const Block &block : blocks_) write_bytes(block.data, block.size);
    for (const Tensor &tensor : tensors_) {
      write_place(static_cast<uint8_t *>(tensor.native.dl.data));
      write_bytes(tensor.shape.data(), tensor.shape.size() * sizeof(int64_t));
      write_bytes(tensor.strides.data(), tensor.strides.size() * sizeof(int64_t));
    }
    for (const edgecore_value &value : values_) {
      write(value.tag);
      write(value.as.i);
    }
    std::fflush(stdout);
  }

 private:
  void read_blocks() {
    blocks_.resize(read<uint32_t>());
    for (Block &block : blocks_) {
      block.size = read<uint64_t>();
      const auto misalignment = read<uint32_t>();
      block.memory.resize(block.size + 64 + misalignment);
      const auto address = reinterpret_cast<uintptr_t>(block.memory.data());
      block.data = block.memory.data() + (64 - address % 64) % 64 + misalignment;
      read_bytes(block.data, block.size);
    }
  }

  // Writes the index of the block that contains `address`, and the offset in that block. Both may differ from the
  // request, because a kernel can make an output a view of an input.
  void write_place(const uint8_t *address) {
    uint32_t index = 0;
    while (index < blocks_.size() &&
           (address < blocks_[index].data || address > blocks_[index].data + blocks_[index].size)) {
      ++index;
    }
    write(index < blocks_.size() ? index : kNull);
    write(index < blocks_.size() ? static_cast<uint64_t>(address - blocks_[index].data) : uint64_t{0});
  }

  void read_tensors() {
    tensors_.resize(read<uint32_t>());
    for (Tensor &tensor : tensors_) {
      edgecore_tensor &native = tensor.native;
      native.header = {sizeof(native), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
      native.flags = read<uint32_t>();
      native.scalar_type = read<int32_t>();
      const auto block = read<uint32_t>();
      const auto offset = read<uint64_t>();
      native.capacity = read<uint64_t>();
      native.dl.device_type = 1;  // the CPU
      native.dl.dtype = {0, static_cast<uint8_t>(read<uint32_t>()), 1};
      if (block != kNull) native.dl.data = blocks_[block].data + offset;
      const auto ndim = read<uint32_t>();
      native.dl.ndim = static_cast<int32_t>(ndim);
      tensor.shape.resize(ndim);
      tensor.strides.resize(ndim);
      tensor.max_shape.resize(ndim);
      tensor.order.resize(ndim);
      read_bytes(tensor.shape.data(), ndim * sizeof(int64_t));
      read_bytes(tensor.strides.data(), ndim * sizeof(int64_t));
      read_bytes(tensor.max_shape.data(), ndim * sizeof(int64_t));
      read_bytes(tensor.order.data(), ndim);
      native.dl.shape = tensor.shape.data();
      native.dl.strides = tensor.strides.data();
      native.max_shape = tensor.max_shape.data();
      native.dim_order = tensor.order.data();
    }
  }

  void read_values() {
    values_.resize(read<uint32_t>());
    for (edgecore_value &value : values_) {
      value = {};
      value.tag = read<uint32_t>();
      if (value.tag == EDGECORE_TAG_TENSOR) {
        value.as.tensor = &tensors_[read<uint32_t>()].native;
      } else if (value.tag < EDGECORE_TAG_TENSOR) {
        value.as.i = read<int64_t>();
      } else {
        value.as.list = read_list(value.tag);
      }
    }
  }

  edgecore_list *read_list(uint32_t tag) {
    lists_.emplace_back();
    List &list = lists_.back();
    list.native.count = read<uint32_t>();
    if (tag == EDGECORE_TAG_STRING || tag == EDGECORE_TAG_BOOL_LIST) {
      list.bytes.resize(list.native.count);
      read_bytes(&list.bytes[0], list.bytes.size());
      list.native.items.chars = list.bytes.data();
    } else if (tag == EDGECORE_TAG_TENSOR_LIST) {
      for (uint64_t i = 0; i < list.native.count; ++i) {
        const auto index = read<uint32_t>();
        list.tensors.push_back(index == kNull ? nullptr : &tensors_[index].native);
      }
      list.native.items.tensors = list.tensors.data();
    } else {
      list.words.resize(list.native.count);
      read_bytes(list.words.data(), list.words.size() * sizeof(int64_t));
      list.native.items.ints = list.words.data();
    }
    return &list.native;
  }

  std::vector<Block> blocks_;
  std::vector<Tensor> tensors_;
  std::vector<edgecore_value> values_;
  std::deque<List> lists_;  // list values point to these elements; a deque does not move them
};

}  // namespace

int main(int argc, char **argv) {
  const edgecore_kernel_library *library =
      argc == 2 ? edgecore_kernels_library_for(argv[1]) : edgecore_kernels_library();
  write(static_cast<uint32_t>(library == nullptr ? 0 : library->kernel_count));
  for (uint64_t i = 0; library != nullptr && i < library->kernel_count; ++i) write_text(name_of(library->kernels[i]));
  std::fflush(stdout);
  while (library != nullptr) Request().run(*library);
}
