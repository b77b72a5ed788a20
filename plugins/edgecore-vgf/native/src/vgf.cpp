#include "vgf.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "vgf_generated.h"

namespace edgecore::vgf {
namespace {

using edgecore::backend::ByteReader;
using edgecore::backend::damaged;
using edgecore::backend::fail;

constexpr uint32_t kHeaderBytes = 128, kSections = 4, kAlignment = 8;
constexpr uint8_t kMajor = 0, kFirstMinor = 4, kLastMinor = 5;
constexpr uint32_t kTensorDescriptor = 1000460000;  // VK_DESCRIPTOR_TYPE_TENSOR_ARM
constexpr uint32_t kSpirvMagic = 0x07230203;
constexpr uint32_t kMaxSets = 8, kMaxBindings = 4096;
constexpr size_t kMaxRank = 6;
constexpr int64_t kMaxBytes = int64_t{1} << 40;
constexpr uint32_t kNoIndex = 0xffffffff;
constexpr char kConstantsMagic[8] = {'C', 'O', 'N', 'S', 'T', '0', '0', '\0'};
constexpr uint64_t kConstantBytes = 24;

struct Sections {
  edgecore_bytes modules, sequence, resources, constants;
};

Sections read_header(edgecore_bytes blob) {
  ByteReader reader(blob);
  if (blob.size < kHeaderBytes || std::memcmp(reader.take(4), "VGF1", 4) != 0) {
    fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "the blob is no VGF file");
  }
  reader.u32();  // skips the converter's version of the Vulkan headers
  const uint8_t *version = reader.take(8);
  if (version[0] != kMajor || version[1] < kFirstMinor || version[1] > kLastMinor) {
    fail(
        EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
        "the blob is a VGF file of version %u.%u.%u, and this edgecore-vgf reads 0.4 and 0.5: install the release that "
        "compiled it",
        version[0], version[1], version[2]);
  }
  edgecore_bytes sections[kSections];
  for (edgecore_bytes &section : sections) {
    const auto offset = reader.number<uint64_t>(), size = reader.number<uint64_t>();
    if (offset % kAlignment != 0 || offset < kHeaderBytes || offset > blob.size || size > blob.size - offset) {
      damaged("a section of %llu bytes at %llu is outside of its %llu bytes", static_cast<unsigned long long>(size),
              static_cast<unsigned long long>(offset), static_cast<unsigned long long>(blob.size));
    }
    section = {blob.data + offset, size};
  }
  return {sections[0], sections[1], sections[2], sections[3]};
}

template <typename Root>
const Root *read_root(edgecore_bytes section, const char *name) {
  flatbuffers::Verifier verifier(section.data, static_cast<size_t>(section.size));
  if (!verifier.VerifyBuffer<Root>(nullptr)) damaged("the flatbuffer of its %s is invalid", name);
  return flatbuffers::GetRoot<Root>(section.data);
}

// Returns entry `index` of a vector. Throws a Failure if the file lacks the vector or the entry.
template <typename Item>
const Item *at(const flatbuffers::Vector<flatbuffers::Offset<Item>> *items, uint32_t index, const char *name) {
  if (items == nullptr || index >= items->size()) damaged("it has no %s with the number %u", name, index);
  return items->Get(index);
}

edgecore_dl_dtype dtype_of(uint32_t format) {
  switch (format) {
    case 14:  // VK_FORMAT_R8_SINT
      return {EDGECORE_DL_INT, 8, 1};
    case 75:  // VK_FORMAT_R16_SINT
      return {EDGECORE_DL_INT, 16, 1};
    case 76:  // VK_FORMAT_R16_SFLOAT
      return {EDGECORE_DL_FLOAT, 16, 1};
    case 99:  // VK_FORMAT_R32_SINT
      return {EDGECORE_DL_INT, 32, 1};
    case 100:  // VK_FORMAT_R32_SFLOAT
      return {EDGECORE_DL_FLOAT, 32, 1};
    case 1000460000:  // VK_FORMAT_R8_BOOL_ARM
      return {EDGECORE_DL_BOOL, 8, 1};
    case 111:  // VK_FORMAT_R64_SINT, in which int48 is stored too
      return {EDGECORE_DL_INT, 64, 1};
    default:
      fail(EDGECORE_NOT_SUPPORTED, "the VGF file has a tensor of the VkFormat %u", format);
  }
}

Tensor tensor_of(const wire::Resource &resource, uint32_t number) {
  Tensor tensor;
  tensor.format = resource.format();
  tensor.dtype = dtype_of(tensor.format);
  int64_t bytes = tensor.dtype.bits / 8;
  const auto *layout = resource.layout();
  if (layout == nullptr) damaged("the resource %u has no shape", number);
  if (layout->strides() != nullptr && layout->strides()->size() != 0) {
    fail(EDGECORE_NOT_SUPPORTED, "the VGF file has a tensor with strides");
  }
  if (layout->shape() != nullptr) tensor.shape.assign(layout->shape()->begin(), layout->shape()->end());
  if (tensor.shape.size() > kMaxRank) damaged("the resource %u has %zu dims", number, tensor.shape.size());
  for (const int64_t size : tensor.shape) {
    if (size < 1 || size > kMaxBytes / bytes)
      damaged("the resource %u has a dim of size %lld", number, static_cast<long long>(size));
    bytes *= size;
  }
  tensor.bytes = static_cast<uint64_t>(bytes);
  return tensor;
}

// The descriptor set and binding of a resource in a segment of the VGF file.
struct Place {
  uint32_t resource, set, binding;
  bool operator==(const Place &other) const {
    return resource == other.resource && set == other.set && binding == other.binding;
  }
};

std::vector<Place> places_of(const wire::Segment &segment) {
  std::vector<Place> places;
  const auto *sets = segment.descriptor_sets();
  for (uint32_t i = 0; sets != nullptr && i < sets->size(); ++i) {
    const uint32_t set = sets->Get(i)->index() == kNoIndex ? i : sets->Get(i)->index();
    const auto *slots = sets->Get(i)->slots();
    for (uint32_t s = 0; slots != nullptr && s < slots->size(); ++s) {
      const Place place = {slots->Get(s)->resource(), set, slots->Get(s)->binding()};
      if (place.set >= kMaxSets || place.binding >= kMaxBindings) {
        damaged("a descriptor has the set %u and the binding %u", place.set, place.binding);
      }
      bool is_known = false;  // true if `places` has `place` already: two outputs may be the same value
      for (const Place &other : places) {
        is_known = is_known || other == place;
        if (!is_known &&
            (other.resource == place.resource || (other.set == place.set && other.binding == place.binding))) {
          damaged("two descriptors have the resource %u, or the binding %u of set %u", place.resource, place.binding,
                  place.set);
        }
      }
      if (!is_known) places.push_back(place);
    }
  }
  return places;
}

std::vector<Argument> arguments_of(const flatbuffers::Vector<flatbuffers::Offset<wire::Slot>> *slots,
                                   const wire::Resources &resources, const std::vector<Place> &places,
                                   wire::Category category) {
  std::vector<Argument> arguments;
  for (uint32_t i = 0; slots != nullptr && i < slots->size(); ++i) {
    const uint32_t number = slots->Get(i)->resource();
    const wire::Resource &resource = *at(resources.resources(), number, "resource");
    if (resource.category() != category || resource.descriptor_type() != kTensorDescriptor) {
      damaged("the resource %u is no %s tensor", number, category == wire::Category::INPUT ? "input" : "output");
    }
    const auto place =
        std::find_if(places.begin(), places.end(), [&](const Place &one) { return one.resource == number; });
    if (place == places.end()) damaged("the resource %u has no descriptor", number);
    arguments.push_back({tensor_of(resource, number), place->set, place->binding});
  }
  return arguments;
}

// Returns the constants of the file. Each entry has 24 bytes: u32 resource, i32 sparse dim, u64 size, and u64 offset of
// the data from the end of the entries.
std::vector<Constant> constants_of(edgecore_bytes section, const wire::Resources &resources) {
  std::vector<Constant> constants;
  if (section.size == 0) return constants;
  ByteReader reader(section);
  if (section.size < 16 || std::memcmp(reader.take(8), kConstantsMagic, 8) != 0) {
    damaged("its section of constants has an unknown format");
  }
  const auto count = reader.number<uint64_t>();
  if (count > reader.left() / kConstantBytes) damaged("it has %llu constants", static_cast<unsigned long long>(count));
  const edgecore_bytes data = {section.data + 16 + count * kConstantBytes, reader.left() - count * kConstantBytes};
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t number = reader.u32(), sparse_dim = reader.u32();
    const auto size = reader.number<uint64_t>(), offset = reader.number<uint64_t>();
    if (sparse_dim != kNoIndex) fail(EDGECORE_NOT_SUPPORTED, "the VGF file has a sparse constant");
    const wire::Resource &resource = *at(resources.resources(), number, "resource");
    const Tensor tensor = tensor_of(resource, number);
    if (resource.category() != wire::Category::CONSTANT || size != tensor.bytes || offset > data.size ||
        size > data.size - offset) {
      damaged("the constant %llu lies outside of its section, or is no constant of %llu bytes",
              static_cast<unsigned long long>(i), static_cast<unsigned long long>(size));
    }
    constants.push_back({tensor, {data.data + offset, size}});
  }
  return constants;
}

}  // namespace

Vgf read_vgf(edgecore_bytes blob) {
  const Sections sections = read_header(blob);
  const auto &modules = *read_root<wire::Modules>(sections.modules, "modules");
  const auto &sequence = *read_root<wire::Sequence>(sections.sequence, "sequence");
  const auto &resources = *read_root<wire::Resources>(sections.resources, "resources");
  if (sequence.segments() == nullptr || sequence.segments()->size() != 1) {
    fail(EDGECORE_NOT_SUPPORTED, "the VGF file has %u segments, and edgecore-vgf runs one",
         sequence.segments() == nullptr ? 0 : sequence.segments()->size());
  }
  const wire::Segment &segment = *sequence.segments()->Get(0);
  const wire::Module &module = *at(modules.modules(), segment.module_index(), "module");
  if (segment.kind() != wire::Kind::GRAPH || module.kind() != wire::Kind::GRAPH) {
    fail(EDGECORE_NOT_SUPPORTED, "the VGF file has a compute shader, and edgecore-vgf runs graphs");
  }
  const wire::Spirv *code = module.code_as_Spirv();
  if (code == nullptr || code->words() == nullptr || code->words()->size() == 0 ||
      code->words()->Get(0) != kSpirvMagic || module.entry_point() == nullptr) {
    damaged("its module has no SPIR-V or no entry point");
  }
  Vgf vgf;
  vgf.spirv.assign(code->words()->begin(), code->words()->end());
  vgf.entry_point = module.entry_point()->str();
  const std::vector<Place> places = places_of(segment);
  for (const Place &place : places) vgf.descriptor_sets = std::max(vgf.descriptor_sets, place.set + 1);
  vgf.inputs = arguments_of(sequence.inputs(), resources, places, wire::Category::INPUT);
  for (Argument &result : arguments_of(sequence.outputs(), resources, places, wire::Category::OUTPUT)) {
    const auto same = std::find_if(vgf.outputs.begin(), vgf.outputs.end(), [&](const Argument &other) {
      return other.set == result.set && other.binding == result.binding;
    });
    vgf.results.push_back(static_cast<size_t>(same - vgf.outputs.begin()));
    if (same == vgf.outputs.end()) vgf.outputs.push_back(std::move(result));
  }
  if (vgf.inputs.size() + vgf.outputs.size() != places.size()) {
    damaged("it has %zu descriptors for %zu arguments", places.size(), vgf.inputs.size() + vgf.outputs.size());
  }
  const std::vector<Constant> constants = constants_of(sections.constants, resources);
  const auto *used = segment.constants();
  for (uint32_t i = 0; used != nullptr && i < used->size(); ++i) {
    if (used->Get(i) >= constants.size()) damaged("it has no constant with the number %u", used->Get(i));
    vgf.constants.push_back(constants[used->Get(i)]);
  }
  return vgf;
}

}  // namespace edgecore::vgf
