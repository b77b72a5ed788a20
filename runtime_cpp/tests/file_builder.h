// Makes .ptd and .bpte files in memory.
#ifndef EDGECORE_TESTS_FILE_BUILDER_H_
#define EDGECORE_TESTS_FILE_BUILDER_H_

#include <string.h>

#include <string>
#include <vector>

#include "bundled_program_generated.h"
#include "flat_tensor_generated.h"

namespace edgecore {

// An entry of a .ptd file.
struct DataEntry {
  std::string key;
  std::vector<int32_t> sizes;
  std::vector<uint8_t> bytes;
  bool has_layout = true;
  fb::ptd::ScalarType type = fb::ptd::ScalarType::BYTE;
};

struct PtdBuilder {
  std::vector<DataEntry> entries;
  uint32_t version = 0;
  int64_t segment_offset_error = 0;  // added to every segment's offset
  int64_t segment_size_error = 0;

  std::vector<uint8_t> finish() const {
    flatbuffers::FlatBufferBuilder builder;
    std::vector<flatbuffers::Offset<fb::ptd::DataSegment>> segments;
    std::vector<flatbuffers::Offset<fb::ptd::NamedData>> named;
    std::vector<uint8_t> data;
    for (const DataEntry &entry : entries) {
      data.resize((data.size() + 15) / 16 * 16);
      segments.push_back(fb::ptd::CreateDataSegment(builder, data.size() + static_cast<uint64_t>(segment_offset_error),
                                                    entry.bytes.size() + static_cast<uint64_t>(segment_size_error)));
      data.insert(data.end(), entry.bytes.begin(), entry.bytes.end());
      flatbuffers::Offset<fb::ptd::TensorLayout> layout;
      if (entry.has_layout) {
        std::vector<uint8_t> order(entry.sizes.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint8_t>(i);
        layout = fb::ptd::CreateTensorLayoutDirect(builder, entry.type, &entry.sizes, &order);
      }
      named.push_back(fb::ptd::CreateNamedDataDirect(builder, entry.key.c_str(),
                                                     static_cast<uint32_t>(segments.size() - 1), layout));
    }
    fb::ptd::FinishFlatTensorBuffer(builder, fb::ptd::CreateFlatTensorDirect(builder, version, &segments, &named));
    // Insert ExecuTorch's extended header of 48 bytes between the flatbuffer's identifier and its tables. The root
    // offset, the first 4 bytes, grows by 48.
    constexpr uint32_t kHeader = 48;
    std::vector<uint8_t> file(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
    uint32_t root;
    memcpy(&root, file.data(), 4);
    root += kHeader;
    memcpy(file.data(), &root, 4);
    const uint64_t base = (file.size() + kHeader + 127) / 128 * 128;
    const uint64_t numbers[4] = {kHeader, builder.GetSize(), base, data.size()};
    std::vector<uint8_t> header(kHeader);
    memcpy(header.data(), "FH01", 4);
    header[4] = 40;
    memcpy(header.data() + 8, numbers, sizeof(numbers));
    file.insert(file.begin() + 8, header.begin(), header.end());
    file.resize(base);
    file.insert(file.end(), data.begin(), data.end());
    return file;
  }
};

inline std::vector<uint8_t> make_bpte(const std::vector<uint8_t> &program) {
  flatbuffers::FlatBufferBuilder builder;
  builder.ForceVectorAlignment(program.size(), 1, 32);
  const auto bytes = builder.CreateVector(program);
  fb::bundled::FinishBundledProgramBuffer(builder, fb::bundled::CreateBundledProgram(builder, 2, 0, bytes));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

}  // namespace edgecore

#endif  // EDGECORE_TESTS_FILE_BUILDER_H_
