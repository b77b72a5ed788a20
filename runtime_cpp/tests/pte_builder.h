// Makes small .pte files for tests.
#ifndef EDGECORE_TESTS_PTE_BUILDER_H_
#define EDGECORE_TESTS_PTE_BUILDER_H_

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <memory>
#include <string>
#include <vector>

#include "edgecore/span.h"
#include "meta_generated.h"
#include "program_generated.h"

namespace edgecore {

// A copy of bytes that is aligned to 128, like a mapped file. It is a separate allocation, so that a sanitizer detects
// reads past its end.
class AlignedBytes {
 public:
  explicit AlignedBytes(const std::vector<uint8_t> &bytes) : size_(bytes.size()), memory_(nullptr, free) {
    void *memory = nullptr;
    if (posix_memalign(&memory, 128, size_ == 0 ? 1 : size_) != 0) abort();
    memory_.reset(static_cast<uint8_t *>(memory));
    if (size_ != 0) memcpy(memory, bytes.data(), size_);
  }
  Bytes view() const { return {memory_.get(), size_}; }

 private:
  size_t size_;
  std::unique_ptr<uint8_t, void (*)(void *)> memory_;
};

struct PlannedAt {
  uint32_t arena;
  uint64_t offset;
};

struct TensorOptions {
  fb::ScalarType type = fb::ScalarType::FLOAT;
  std::vector<uint8_t> dim_order;  // empty: contiguous
  fb::TensorShapeDynamism dynamism = fb::TensorShapeDynamism::STATIC;
  uint32_t data_index = 0;
  const char *name = nullptr;  // qualified name of a mutable buffer, or of external data
  fb::TensorDataLocation location = fb::TensorDataLocation::SEGMENT;
};

// Builds a .pte file with one method, or several equal methods. Every add function returns the index of the new item.
class PteBuilder {
 public:
  int32_t add_none() { return add_value(fb::KernelTypes::Null, fb::CreateNull(builder_).Union()); }
  int32_t add_int(int64_t x) { return add_value(fb::KernelTypes::Int, fb::CreateInt(builder_, x).Union()); }
  int32_t add_bool(bool x) { return add_value(fb::KernelTypes::Bool, fb::CreateBool(builder_, x).Union()); }
  int32_t add_double(double x) { return add_value(fb::KernelTypes::Double, fb::CreateDouble(builder_, x).Union()); }
  int32_t add_int_list(std::vector<int64_t> values) {
    return add_value(fb::KernelTypes::IntList, fb::CreateIntListDirect(builder_, &values).Union());
  }
  int32_t add_tensor_list(std::vector<int32_t> values) {
    return add_value(fb::KernelTypes::TensorList, fb::CreateTensorListDirect(builder_, &values).Union());
  }
  int32_t add_tensor(std::vector<int32_t> sizes, TensorOptions options = {}) {
    return add_tensor_at(sizes, 0, options);
  }
  int32_t add_planned(std::vector<int32_t> sizes, PlannedAt at, TensorOptions options = {}) {
    return add_tensor_at(sizes,
                         fb::CreateAllocationDetails(builder_, at.arena, static_cast<uint32_t>(at.offset),
                                                     static_cast<uint32_t>(at.offset >> 32)),
                         options);
  }
  // Adds a constant whose data are aligned to 16 bytes.
  int32_t add_constant(std::vector<int32_t> sizes, const std::vector<float> &data, TensorOptions options = {}) {
    options.data_index = append(constants_, constant_offsets_, data);
    return add_tensor(sizes, options);
  }
  // Adds a mutable buffer with initial values: a tensor at the position `at` of the memory plan.
  int32_t add_state(std::vector<int32_t> sizes, PlannedAt at, const std::vector<float> &data,
                    TensorOptions options = {}) {
    options.data_index = append(state_, state_offsets_, data);
    return add_planned(sizes, at, options);
  }
  int32_t add_operator(const std::string &name, const std::string &overload) {
    operators_.push_back(fb::CreateOperatorDirect(builder_, name.c_str(), overload.c_str()));
    return static_cast<int32_t>(operators_.size()) - 1;
  }
  int32_t add_delegate(const std::string &id, const std::vector<uint8_t> &blob) {
    segments_.push_back(blob);
    delegates_.push_back({id, blob});
    return static_cast<int32_t>(delegates_.size()) - 1;
  }
  void add_named_data(const std::string &key, const std::vector<uint8_t> &data) { named_.push_back({key, data}); }

  void kernel(int32_t op, std::vector<int32_t> args) {
    instruct(fb::InstructionArguments::KernelCall, fb::CreateKernelCallDirect(builder_, op, &args).Union());
  }
  void delegate(int32_t index, std::vector<int32_t> args) {
    instruct(fb::InstructionArguments::DelegateCall, fb::CreateDelegateCallDirect(builder_, index, &args).Union());
  }
  void move(int32_t from, int32_t to) {
    instruct(fb::InstructionArguments::MoveCall, fb::CreateMoveCall(builder_, from, to).Union());
  }
  void jump_false(int32_t condition, int32_t destination) {
    instruct(fb::InstructionArguments::JumpFalseCall,
             fb::CreateJumpFalseCall(builder_, condition, destination).Union());
  }
  void free_value(int32_t value) {
    instruct(fb::InstructionArguments::FreeCall, fb::CreateFreeCall(builder_, value).Union());
  }

  std::vector<std::string> methods = {"forward"};
  std::vector<int32_t> inputs, outputs;
  std::vector<int64_t> arenas;  // sizes of the arenas in bytes; the first arena has memory_id 1

  // Contents of the file's metadata, which add_meta() adds: names and dims of inputs and outputs, names of the mutable
  // buffers that methods share, and SHA-256 hashes of the constants, the initial state and the named data.
  struct DimMeta {
    const char *name;
    int64_t min;
    int32_t symbol = -1;
    int64_t multiple = 1;
    int64_t offset = 0;
  };
  struct ArgumentMeta {
    const char *name;
    std::vector<DimMeta> dims = {};
  };
  std::vector<ArgumentMeta> input_metas, output_metas;
  std::vector<std::string> shared_state;  // names of buffers
  std::vector<uint8_t> constants_digest, state_digest;
  std::vector<std::pair<std::string, std::vector<uint8_t>>> data_digests;  // ordered by key
  Bytes constants() const { return {constants_.data(), constants_.size()}; }
  Bytes state() const { return {state_.data(), state_.size()}; }

  // Amount of memory of one kind that a delegate needs.
  struct Declared {
    fb::meta::MemoryKind kind;
    uint64_t bytes;
  };
  // Adds edgecore's metadata as the named data "edgecore.meta.v1". The arguments describe a delegate; all delegates
  // have the same description. `sha256` is the hash of the delegate's blob.
  void add_meta(std::vector<Declared> needs, const std::string &compatibility, std::vector<uint8_t> sha256) {
    flatbuffers::FlatBufferBuilder meta;
    std::vector<flatbuffers::Offset<fb::meta::MemoryNeed>> memory;
    for (const Declared &need : needs) {
      memory.push_back(fb::meta::CreateMemoryNeedDirect(meta, need.kind, 0, need.bytes, 16, ""));
    }
    std::vector<flatbuffers::Offset<fb::meta::Delegate>> delegates;
    for (size_t i = 0; i < delegates_.size(); ++i) {
      delegates.push_back(
          fb::meta::CreateDelegateDirect(meta, &sha256, compatibility.c_str(), "edgecore-null", "0", &memory));
    }
    const auto inputs_meta = describe(meta, input_metas), outputs_meta = describe(meta, output_metas);
    std::vector<flatbuffers::Offset<fb::meta::Method>> methods = {
        fb::meta::CreateMethodDirect(meta, "forward", &delegates, nullptr, nullptr, &inputs_meta, &outputs_meta)};
    std::vector<flatbuffers::Offset<fb::meta::DataDigest>> data;
    for (const auto &entry : data_digests) {
      data.push_back(fb::meta::CreateDataDigestDirect(meta, entry.first.c_str(), &entry.second));
    }
    std::vector<flatbuffers::Offset<flatbuffers::String>> shared;
    for (const std::string &name : shared_state) shared.push_back(meta.CreateString(name));
    fb::meta::FinishMetaBuffer(meta, fb::meta::CreateMetaDirect(meta, "edgecore", "edgecore", "0", &methods, &shared,
                                                                &constants_digest, &state_digest, &data));
    add_named_data("edgecore.meta.v1",
                   std::vector<uint8_t>(meta.GetBufferPointer(), meta.GetBufferPointer() + meta.GetSize()));
  }

  std::vector<uint8_t> finish() {
    std::vector<flatbuffers::Offset<fb::Chain>> chains = {
        fb::CreateChainDirect(builder_, &inputs, &outputs, &instructions_)};
    std::vector<flatbuffers::Offset<fb::BackendDelegate>> delegates;
    for (size_t i = 0; i < delegates_.size(); ++i) {
      const auto blob =
          fb::CreateBackendDelegateDataReference(builder_, fb::DataLocation::SEGMENT, static_cast<uint32_t>(i));
      delegates.push_back(fb::CreateBackendDelegateDirect(builder_, delegates_[i].first.c_str(), blob));
    }
    std::vector<int64_t> sizes = {0};
    sizes.insert(sizes.end(), arenas.begin(), arenas.end());
    std::vector<flatbuffers::Offset<fb::ExecutionPlan>> plans;
    for (const std::string &method : methods) {
      plans.push_back(fb::CreateExecutionPlanDirect(builder_, method.c_str(), 0, &values_, &inputs, &outputs, &chains,
                                                    &operators_, &delegates, &sizes));
    }

    flatbuffers::Offset<fb::SubsegmentOffsets> constant_segment = 0;
    if (constant_offsets_.size() > 1) {
      constant_segment = fb::CreateSubsegmentOffsetsDirect(builder_, add_segment(constants_), &constant_offsets_);
    }
    std::vector<flatbuffers::Offset<fb::SubsegmentOffsets>> state_segments;
    if (state_offsets_.size() > 1) {
      state_segments.push_back(fb::CreateSubsegmentOffsetsDirect(builder_, add_segment(state_), &state_offsets_));
    }
    std::vector<flatbuffers::Offset<fb::NamedData>> named;
    for (const auto &entry : named_) {
      named.push_back(fb::CreateNamedDataDirect(builder_, entry.first.c_str(), add_segment(entry.second)));
    }

    std::vector<uint8_t> data;
    std::vector<flatbuffers::Offset<fb::DataSegment>> table;
    for (const std::vector<uint8_t> &segment : segments_) {
      data.resize((data.size() + 127) / 128 * 128);
      table.push_back(fb::CreateDataSegment(builder_, data.size(), segment.size()));
      data.insert(data.end(), segment.begin(), segment.end());
    }
    fb::FinishProgramBuffer(builder_, fb::CreateProgramDirect(builder_, 0, &plans, nullptr, nullptr, &table,
                                                              constant_segment, &state_segments, &named));
    return with_header(data);
  }

 private:
  static std::vector<flatbuffers::Offset<fb::meta::Argument>> describe(flatbuffers::FlatBufferBuilder &meta,
                                                                       const std::vector<ArgumentMeta> &arguments) {
    std::vector<flatbuffers::Offset<fb::meta::Argument>> metas;
    for (const ArgumentMeta &argument : arguments) {
      std::vector<flatbuffers::Offset<fb::meta::Dim>> dims;
      for (const DimMeta &dim : argument.dims) {
        dims.push_back(fb::meta::CreateDimDirect(meta, dim.name, dim.min, dim.symbol, dim.multiple, dim.offset));
      }
      metas.push_back(fb::meta::CreateArgumentDirect(meta, argument.name, &dims));
    }
    return metas;
  }

  template <typename Offset>
  int32_t add_value(fb::KernelTypes type, Offset value) {
    values_.push_back(fb::CreateEValue(builder_, type, value));
    return static_cast<int32_t>(values_.size()) - 1;
  }

  int32_t add_tensor_at(const std::vector<int32_t> &sizes, flatbuffers::Offset<fb::AllocationDetails> allocation,
                        const TensorOptions &options) {
    std::vector<uint8_t> order = options.dim_order;
    for (size_t i = 0; options.dim_order.empty() && i < sizes.size(); ++i) order.push_back(static_cast<uint8_t>(i));
    flatbuffers::Offset<fb::ExtraTensorInfo> extra = 0;
    if (options.name != nullptr) extra = fb::CreateExtraTensorInfoDirect(builder_, 0, options.name, options.location);
    return add_value(fb::KernelTypes::Tensor,
                     fb::CreateTensorDirect(builder_, options.type, 0, &sizes, &order, false, options.data_index,
                                            allocation, 0, options.dynamism, extra)
                         .Union());
  }

  template <typename Offset>
  void instruct(fb::InstructionArguments type, Offset arguments) {
    instructions_.push_back(fb::CreateInstruction(builder_, type, arguments));
  }

  uint32_t append(std::vector<uint8_t> &segment, std::vector<uint64_t> &offsets, const std::vector<float> &data) {
    segment.resize((segment.size() + 15) / 16 * 16);
    offsets.push_back(segment.size());
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(data.data());
    segment.insert(segment.end(), bytes, bytes + data.size() * sizeof(float));
    return static_cast<uint32_t>(offsets.size()) - 1;
  }

  uint32_t add_segment(const std::vector<uint8_t> &data) {
    segments_.push_back(data);
    return static_cast<uint32_t>(segments_.size()) - 1;
  }

  // Inserts ExecuTorch's extended header after the flatbuffer's file identifier and appends the segments.
  std::vector<uint8_t> with_header(const std::vector<uint8_t> &data) const {
    constexpr size_t kHeader = 32;
    const uint8_t *program = builder_.GetBufferPointer();
    std::vector<uint8_t> file(program, program + builder_.GetSize());
    uint32_t root;
    memcpy(&root, file.data(), 4);
    root += kHeader;
    memcpy(file.data(), &root, 4);
    file.insert(file.begin() + 8, kHeader, 0);
    const uint64_t program_size = file.size();
    const uint64_t base = (program_size + 127) / 128 * 128;
    const uint64_t data_size = data.size();
    const uint32_t length = kHeader;
    memcpy(file.data() + 8, "eh00", 4);
    memcpy(file.data() + 12, &length, 4);
    memcpy(file.data() + 16, &program_size, 8);
    memcpy(file.data() + 24, &base, 8);
    memcpy(file.data() + 32, &data_size, 8);
    file.resize(base);
    file.insert(file.end(), data.begin(), data.end());
    return file;
  }

  flatbuffers::FlatBufferBuilder builder_;
  std::vector<flatbuffers::Offset<fb::EValue>> values_;
  std::vector<flatbuffers::Offset<fb::Operator>> operators_;
  std::vector<flatbuffers::Offset<fb::Instruction>> instructions_;
  std::vector<std::pair<std::string, std::vector<uint8_t>>> delegates_, named_;
  std::vector<std::vector<uint8_t>> segments_;
  std::vector<uint8_t> constants_, state_;
  std::vector<uint64_t> constant_offsets_ = {0}, state_offsets_ = {0};
};

}  // namespace edgecore

#endif  // EDGECORE_TESTS_PTE_BUILDER_H_
