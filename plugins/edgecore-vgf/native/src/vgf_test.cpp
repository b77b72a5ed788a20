// Tests the reader of VGF files: it refuses a damaged file, or returns numbers and data that are all in bounds.
#include "vgf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "vgf_generated.h"

namespace edgecore::vgf {
namespace {

using edgecore::backend::Failure;
using Bytes = std::vector<uint8_t>;

constexpr uint32_t kTensor = 1000460000, kInt8 = 14, kFloat32 = 100;
constexpr uint32_t kSpirv[] = {0x07230203, 0x00010600, 7};

// The contents of a file, in the order of the sections. The defaults are a file with an input of the shape [2, 3], an
// output of the shape [3] and a constant of 4 int8 numbers.
struct Content {
  std::vector<uint32_t> words = {std::begin(kSpirv), std::end(kSpirv)};
  std::string entry_point = "main";
  wire::Kind module_kind = wire::Kind::GRAPH;
  uint32_t segments = 1, module_index = 0;
  struct Resource {
    uint32_t descriptor_type, format;
    wire::Category category;
    std::vector<int64_t> shape, strides;
  };
  std::vector<Resource> resources = {{kTensor, kFloat32, wire::Category::INPUT, {2, 3}, {}},
                                     {kTensor, kFloat32, wire::Category::OUTPUT, {3}, {}},
                                     {0, kInt8, wire::Category::CONSTANT, {4}, {}}};
  struct Descriptor {
    uint32_t set, binding, resource;
  };
  std::vector<Descriptor> descriptors = {{0, 0, 0}, {0, 1, 1}};
  std::vector<uint32_t> inputs = {0}, outputs = {1}, used = {0};
  struct Constant {
    uint32_t resource;
    int32_t sparse_dim;
    uint64_t size, offset;
  };
  std::vector<Constant> constants = {{2, -1, 4, 8}};
  Bytes data = {9, 9, 9, 9, 9, 9, 9, 9, 1, 2, 3, 4};
};

template <typename Number>
void append(Bytes &bytes, Number number) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof(number));
  std::memcpy(&bytes[at], &number, sizeof(number));
}

template <typename Write>
Bytes flatbuffer(const Write &write) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(write(builder));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

Bytes modules_of(const Content &content) {
  return flatbuffer([&](auto &to) {
    const auto code = wire::CreateSpirv(to, to.CreateVector(content.words)).Union();
    const auto entry = to.CreateString(content.entry_point);
    const std::vector<flatbuffers::Offset<wire::Module>> modules = {
        wire::CreateModule(to, content.module_kind, entry, entry, wire::Code::Spirv, code)};
    return wire::CreateModules(to, to.CreateVector(modules));
  });
}

auto slots_of(flatbuffers::FlatBufferBuilder &to, const std::vector<uint32_t> &resources) {
  std::vector<flatbuffers::Offset<wire::Slot>> slots;
  for (const uint32_t resource : resources) slots.push_back(wire::CreateSlot(to, 0, resource));
  return to.CreateVector(slots);
}

Bytes sequence_of(const Content &content) {
  return flatbuffer([&](auto &to) {
    std::vector<flatbuffers::Offset<wire::DescriptorSet>> sets;
    for (const auto &one : content.descriptors) {
      const std::vector<flatbuffers::Offset<wire::Slot>> slots = {wire::CreateSlot(to, one.binding, one.resource)};
      sets.push_back(wire::CreateDescriptorSet(to, to.CreateVector(slots), one.set));
    }
    const auto inputs = slots_of(to, content.inputs), outputs = slots_of(to, content.outputs);
    std::vector<flatbuffers::Offset<wire::Segment>> segments;
    for (uint32_t i = 0; i < content.segments; ++i) {
      segments.push_back(wire::CreateSegment(to, wire::Kind::GRAPH, to.CreateString("s"), content.module_index,
                                             to.CreateVector(sets), inputs, outputs, to.CreateVector(content.used)));
    }
    return wire::CreateSequence(to, to.CreateVector(segments), inputs, outputs);
  });
}

Bytes resources_of(const Content &content) {
  return flatbuffer([&](auto &to) {
    std::vector<flatbuffers::Offset<wire::Resource>> resources;
    for (const auto &one : content.resources) {
      const auto layout = wire::CreateLayout(to, to.CreateVector(one.shape), to.CreateVector(one.strides));
      resources.push_back(wire::CreateResource(to, one.descriptor_type, one.format, one.category, layout));
    }
    return wire::CreateResources(to, to.CreateVector(resources));
  });
}

Bytes constants_of(const Content &content) {
  Bytes bytes = {'C', 'O', 'N', 'S', 'T', '0', '0', 0};
  append<uint64_t>(bytes, content.constants.size());
  for (const auto &one : content.constants) {
    append(bytes, one.resource);
    append(bytes, one.sparse_dim);
    append(bytes, one.size);
    append(bytes, one.offset);
  }
  bytes.insert(bytes.end(), content.data.begin(), content.data.end());
  return bytes;
}

Bytes file_of(const Content &content) {
  const Bytes sections[] = {modules_of(content), sequence_of(content), resources_of(content), constants_of(content)};
  Bytes file = {'V', 'G', 'F', '1'};
  append<uint32_t>(file, 0);
  for (const uint8_t part : {0, 5, 0, 0, 0, 0, 0, 0}) file.push_back(part);
  uint64_t offset = 128;
  for (const Bytes &section : sections) {
    append(file, offset);
    append<uint64_t>(file, section.size());
    offset += (section.size() + 7) / 8 * 8;
  }
  file.resize(128);
  for (const Bytes &section : sections) {
    file.insert(file.end(), section.begin(), section.end());
    file.resize((file.size() + 7) / 8 * 8);
  }
  return file;
}

Vgf read(const Bytes &file) { return read_vgf({file.data(), file.size()}); }

// Returns true if a file is accepted; reads all of its data that the rest of the delegate uses.
bool is_read(const Bytes &file) {
  try {
    const Vgf vgf = read(file);
    for (const auto *arguments : {&vgf.inputs, &vgf.outputs}) {
      for (const Argument &argument : *arguments) EXPECT_LT(argument.set, vgf.descriptor_sets);
    }
    uint8_t sum = 0;  // a sanitizer detects missing bytes
    for (const Constant &constant : vgf.constants) {
      EXPECT_EQ(constant.data.size, constant.tensor.bytes);
      for (uint64_t i = 0; i < constant.data.size; ++i) sum ^= constant.data.data[i];
    }
    EXPECT_EQ(sum, sum);
    return true;
  } catch (const Failure &failure) {
    EXPECT_FALSE(failure.text.empty());
    return false;
  }
}

TEST(Vgf, AFileIsReadAsItWasWritten) {
  Content content;
  content.descriptors = {{2, 7, 0}, {0, 1, 1}};
  const Bytes file = file_of(content);
  const Vgf vgf = read(file);
  EXPECT_EQ(vgf.spirv, content.words);
  EXPECT_EQ(vgf.entry_point, "main");
  EXPECT_EQ(vgf.descriptor_sets, 3u);
  ASSERT_EQ(vgf.inputs.size(), 1u);
  EXPECT_EQ(vgf.inputs[0].set, 2u);
  EXPECT_EQ(vgf.inputs[0].binding, 7u);
  EXPECT_EQ(vgf.inputs[0].tensor.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(vgf.inputs[0].tensor.bytes, 24u);
  ASSERT_EQ(vgf.outputs.size(), 1u);
  EXPECT_EQ(vgf.outputs[0].tensor.shape, std::vector<int64_t>{3});
  ASSERT_EQ(vgf.constants.size(), 1u);
  EXPECT_EQ(Bytes(vgf.constants[0].data.data, vgf.constants[0].data.data + 4), (Bytes{1, 2, 3, 4}));
}

TEST(Vgf, TwoResultsMayBeOneTensor) {
  Content content;
  content.outputs = {1, 1};
  for (const bool is_written_twice : {false, true}) {
    if (is_written_twice) content.descriptors.push_back(content.descriptors[1]);
    const Vgf vgf = read(file_of(content));
    EXPECT_EQ(vgf.outputs.size(), 1u);
    EXPECT_EQ(vgf.results, (std::vector<size_t>{0, 0}));
  }
}

struct Damage {
  const char *sentence;
  std::function<void(Content &)> change;
};

class DamagedVgf : public testing::TestWithParam<Damage> {};

TEST_P(DamagedVgf, IsRefusedWithItsReason) {
  Content content;
  GetParam().change(content);
  try {
    read(file_of(content));
    ADD_FAILURE() << "nothing failed";
  } catch (const Failure &failure) {
    EXPECT_NE(failure.text.find(GetParam().sentence), std::string::npos) << failure.text;
  }
}

constexpr int64_t kLarge = int64_t{1} << 30;

INSTANTIATE_TEST_SUITE_P(
    All, DamagedVgf,
    testing::Values(
        Damage{"the VGF file has 2 segments", [](Content &c) { c.segments = 2; }},
        Damage{"the VGF file has 0 segments", [](Content &c) { c.segments = 0; }},
        Damage{"it has no module with the number 1", [](Content &c) { c.module_index = 1; }},
        Damage{"the VGF file has a compute shader", [](Content &c) { c.module_kind = wire::Kind::COMPUTE; }},
        Damage{"its module has no SPIR-V", [](Content &c) { c.words.clear(); }},
        Damage{"its module has no SPIR-V", [](Content &c) { c.words = {1}; }},
        Damage{"a descriptor has the set 8 and the binding 0", [](Content &c) { c.descriptors[0].set = 8; }},
        Damage{"a descriptor has the set 0 and the binding 4096", [](Content &c) { c.descriptors[0].binding = 4096; }},
        Damage{"two descriptors have the resource 0",
               [](Content &c) {
                 c.descriptors[1] = {0, 1, 0};
               }},
        Damage{"two descriptors have the resource 1, or the binding 0 of set 0",
               [](Content &c) { c.descriptors[1].binding = 0; }},
        Damage{"it has 2 descriptors for 3 arguments",
               [](Content &c) {
                 c.inputs = {0, 0};
               }},
        Damage{"the resource 1 has no descriptor", [](Content &c) { c.descriptors.pop_back(); }},
        Damage{"it has 3 descriptors for 2 arguments",
               [](Content &c) {
                 c.descriptors.push_back({0, 2, 2});
               }},
        Damage{"it has no resource with the number 9", [](Content &c) { c.inputs[0] = 9; }},
        Damage{"the resource 1 is no input tensor", [](Content &c) { c.inputs[0] = 1; }},
        Damage{"the resource 1 is no output tensor", [](Content &c) { c.resources[1].descriptor_type = 6; }},
        Damage{"a tensor of the VkFormat 12", [](Content &c) { c.resources[0].format = 12; }},
        Damage{"a tensor with strides",
               [](Content &c) {
                 c.resources[0].strides = {12, 4};
               }},
        Damage{"the resource 0 has 7 dims", [](Content &c) { c.resources[0].shape.assign(7, 1); }},
        Damage{"a dim of size -1", [](Content &c) { c.resources[0].shape[1] = -1; }},
        Damage{"a dim of size 0", [](Content &c) { c.resources[0].shape[1] = 0; }},
        Damage{"a dim of size 1073741824",
               [](Content &c) {
                 c.resources[0].shape = {kLarge, kLarge, kLarge};
               }},
        Damage{"it has no constant with the number 1", [](Content &c) { c.used = {1}; }},
        Damage{"it has no resource with the number 5", [](Content &c) { c.constants[0].resource = 5; }},
        Damage{"is no constant of 4 bytes", [](Content &c) { c.constants[0].resource = 0; }},
        Damage{"is no constant of 3 bytes", [](Content &c) { c.constants[0].size = 3; }},
        Damage{"lies outside of its section", [](Content &c) { c.constants[0].offset = 9; }},
        Damage{"lies outside of its section", [](Content &c) { c.constants[0].offset = ~uint64_t{0}; }},
        Damage{"a sparse constant", [](Content &c) { c.constants[0].sparse_dim = 0; }}));

TEST(Vgf, EveryTruncationIsReadInBounds) {
  const Bytes file = file_of({});
  for (size_t size = 0; size < file.size(); ++size) {
    const Bytes shorter(file.begin(), file.begin() + static_cast<ptrdiff_t>(size));  // exact size for the sanitizer
    if (is_read(shorter)) EXPECT_GE(size + 8, file.size()) << "only the padding at the end may be missing";
  }
}

TEST(Vgf, EveryChangeOfAByteIsReadInBounds) {
  const Bytes file = file_of({});
  for (size_t at = 0; at < file.size(); ++at) {
    for (const int change : {1, 0x80, 0xff}) {
      Bytes changed = file;
      changed[at] = static_cast<uint8_t>(changed[at] ^ change);
      is_read(changed);
    }
  }
}

TEST(Vgf, RandomNumbersInTheFileAreReadInBounds) {
  const Bytes file = file_of({});
  std::mt19937 random(0);
  for (int round = 0; round < 20000; ++round) {
    Bytes changed = file;
    for (uint32_t count = 1 + random() % 4; count != 0; --count) {
      const uint32_t numbers[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, static_cast<uint32_t>(random())};
      const size_t at = random() % (changed.size() / 4) * 4;
      std::memcpy(&changed[at], &numbers[random() % 6], 4);
    }
    is_read(changed);
  }
}

}  // namespace
}  // namespace edgecore::vgf
