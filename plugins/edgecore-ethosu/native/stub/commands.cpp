// The register commands of an Ethos-U. A command either sets a register of the NPU, or starts an operation with the
// current registers. The value of a register has 16 bits in the command itself, or 32 or 40 bits with a second word.
// The numbers come from Vela's module ethos_u55_regs.
#include "checks.h"

namespace edgecore::ethosu {
namespace {

constexpr uint32_t kStop = 0x000, kConvolution = 0x002, kDepthwise = 0x003, kPooling = 0x005, kElementwise = 0x006,
                   kResize = 0x007, kCopy = 0x010;
constexpr uint32_t kInternalMemory = 1 << 8;  // flag of a region register: the region is memory inside of the NPU
constexpr uint32_t kStrided = 3 << 9;  // flag of a region register: the DMA copies several blocks, a stride apart
constexpr uint32_t kChained = 2;       // value of bits 14 and 15 of a precision register: the tensor is not in memory

// A tensor that operations access in memory. The members are the numbers of the commands that set the tensor's region,
// first byte, length in bytes, and precision; 0 if the NPU has no such command. If there is no command for the length,
// because it results from the tensor's shape, only the first byte is checked.
struct Place {
  const char *name;
  uint16_t region_command, address_command, length_command, precision_command;
};

constexpr Place kPlaces[] = {
    {"input", 0x10f, 0x000, 0, 0x105},
    {"second input", 0x18f, 0x080, 0, 0x185},
    {"output", 0x11f, 0x010, 0, 0x114},
    {"weights", 0x128, 0x020, 0x021, 0},
    {"weights of core 1", 0x128, 0x090, 0x091, 0},
    {"scales", 0x129, 0x022, 0x023, 0},
    {"scales of core 1", 0x129, 0x092, 0x093, 0},
    {"source of a copy", 0x130, 0x030, 0x032, 0},
    {"destination of a copy", 0x131, 0x031, 0x032, 0},
};
constexpr size_t kPlaceCount = sizeof(kPlaces) / sizeof(kPlaces[0]);
constexpr size_t kFirstOfCopy = 7, kFirstOfWeights = 3;

struct Registers {
  uint32_t region, precision;
  uint64_t address, length;
  bool has_address;
};

// The tensors that an operation accesses: entries [begin, end) of kPlaces. Empty for a command that does not start an
// operation.
struct Used {
  size_t begin, end;
};

Used places_of(uint32_t operation) {
  switch (operation) {
    case kConvolution:
    case kDepthwise:
      return {0, kFirstOfCopy};
    case kPooling:
    case kElementwise:
    case kResize:
      return {0, kFirstOfWeights};
    case kCopy:
      return {kFirstOfCopy, kPlaceCount};
    default:
      return {0, 0};
  }
}

bool check_place(const Npu &npu, const Place &place, const Registers &registers, const Regions &regions,
                 Sentence &sentence) {
  const uint32_t region = registers.region & 7;
  if (!registers.has_address || (registers.region & kInternalMemory) != 0) return true;
  if (npu.family == 85 && registers.precision >> 14 == kChained) return true;
  if (region >= static_cast<uint32_t>(regions.count)) {
    return refuse(sentence, place.name, " in the ", region_name(region), ", which the call does not have");
  }
  const bool has_length = place.length_command != 0 && (registers.region & kStrided) == 0;
  const uint64_t end = registers.address + (has_length ? registers.length : 1);
  if (end <= regions.sizes[region]) return true;
  return refuse(sentence, place.name, " to byte ", end, " of the ", region_name(region), ", which has ",
                regions.sizes[region], " bytes");
}

void set_short(const Place &place, uint32_t command, uint32_t value, Registers &registers) {
  if (command == place.region_command) registers.region = value;
  if (command == place.precision_command) registers.precision = value;
}

void set_long(const Place &place, uint32_t command, uint64_t value, Registers &registers) {
  if (command == place.address_command) {
    registers.address = value;
    registers.has_address = true;
  } else if (command == place.length_command) {
    registers.length = value;
  }
}

}  // namespace

bool check_commands(const Npu &npu, edgecore_bytes stream, const Regions &regions, uint64_t &operations,
                    Sentence &sentence) {
  Registers registers[kPlaceCount] = {};
  const uint64_t words = stream.size / 4;
  for (uint64_t at = 0; at < words; ++at) {
    const uint32_t command = word_at(stream, at), code = command & 0x3ff, parameter = command >> 16;
    const bool has_payload = (command >> 14 & 3) == 1;
    if (has_payload && ++at == words) return refuse(sentence, "its commands end within a command");
    const uint64_t value = has_payload ? uint64_t{parameter} << 32 | word_at(stream, at) : parameter;
    for (size_t i = 0; i < kPlaceCount; ++i) {
      if (has_payload) {
        set_long(kPlaces[i], code, value, registers[i]);
      } else {
        set_short(kPlaces[i], code, parameter, registers[i]);
      }
    }
    if (has_payload) continue;
    const Used used = places_of(code);
    for (size_t i = used.begin; i < used.end; ++i) {
      if (!check_place(npu, kPlaces[i], registers[i], regions, sentence)) return false;
    }
    operations += used.end != 0;
    if (code == kStop) return true;
  }
  return refuse(sentence, "its commands have no end");
}

}  // namespace edgecore::ethosu
