#include "checks.h"

namespace edgecore::ethosu {
namespace {

constexpr uint64_t kAlignment = 16;
// Codes of the actions in the driver's payload. An action's code is the low byte of its first word.
constexpr uint32_t kConfiguration = 1, kStream = 2, kNothing = 5;

// The architecture of an NPU. The NPU runs streams that were compiled for the same major version and the same or a
// lower minor version. `commands` is the version of the NPU's command format.
struct Architecture {
  uint32_t major, minor, commands;
};

Architecture architecture_of(const Npu &npu) {
  return npu.family == 85 ? Architecture{2, 0, 1} : Architecture{1, 0, 0};
}

// Checks that a stream was compiled for this NPU. `configuration` and `id` have the fields of the NPU's registers
// CONFIG and ID.
bool check_configuration(const Npu &npu, uint32_t configuration, uint32_t id, Sentence &sentence) {
  constexpr uint32_t kFamilies[] = {55, 65, 85};
  const uint32_t product = configuration >> 28;
  if (product >= 3) return refuse(sentence, "it was compiled for the unknown product ", product);
  const Npu compiled = {kFamilies[product], 1u << (configuration & 15)};
  if (compiled.family != npu.family || compiled.macs != npu.macs) {
    return refuse(sentence, "it was compiled for ethos-u", compiled.family, "-", compiled.macs);
  }
  const Architecture own = architecture_of(npu), wanted = {id >> 28, id >> 20 & 255, configuration >> 4 & 15};
  if (wanted.commands != own.commands) {
    return refuse(sentence, "its commands have the version ", wanted.commands, " instead of ", own.commands);
  }
  if (wanted.major == own.major && wanted.minor <= own.minor) return true;
  return refuse(sentence, "it was compiled for the architecture ", wanted.major, ".", wanted.minor, " instead of ",
                own.major, ".", own.minor);
}

bool check_regions(const Regions &regions, Sentence &sentence) {
  if (regions.count < 2 || regions.count > kMaxRegions) {
    return refuse(sentence, regions.count, " regions, and weights and arena are needed");
  }
  for (int i = 0; i < regions.count; ++i) {
    const uint64_t address = regions.addresses[i], size = regions.sizes[i];
    const char *name = region_name(static_cast<uint64_t>(i));
    if (address % kAlignment != 0) {
      return refuse(sentence, name, " at the address ", address, ", which is no multiple of 16");
    }
    if (size == 0) continue;
    if (address == 0) return refuse(sentence, name, " of ", size, " bytes without an address");
    for (int j = 0; j < i; ++j) {
      if (address < regions.addresses[j] + regions.sizes[j] && regions.addresses[j] < address + size) {
        return refuse(sentence, name, " and ", region_name(static_cast<uint64_t>(j)), " overlap");
      }
    }
  }
  return true;
}

bool check_payload(const Npu &npu, edgecore_bytes payload, const Regions &regions, uint64_t &operations,
                   Sentence &sentence) {
  if (payload.size < 4 || payload.size % 4 != 0) {
    return refuse(sentence, "its ", payload.size, " bytes are no whole number of words");
  }
  if (memcmp(payload.data, "COP1", 4) != 0) return refuse(sentence, "it does not start with COP1");
  bool has_configuration = false, has_stream = false;
  const uint64_t words = payload.size / 4;
  for (uint64_t at = 1; at < words;) {
    const uint32_t word = word_at(payload, at), action = word & 255;
    const uint64_t length = action == kConfiguration ? 2 : action == kStream ? (word & 0xff00) << 8 | word >> 16 : 0;
    if (action != kConfiguration && action != kStream && action != kNothing) {
      return refuse(sentence, "word ", at, " is the unknown action ", action);
    }
    if (length > words - at - 1) return refuse(sentence, "it ends within the action in word ", at);
    if (action == kConfiguration) {
      has_configuration = true;
      if (!check_configuration(npu, word_at(payload, at + 1), word_at(payload, at + 2), sentence)) return false;
    }
    if (action == kStream) {
      has_stream = true;
      const edgecore_bytes stream = {payload.data + 4 * (at + 1), 4 * length};
      if (!has_configuration) return refuse(sentence, "it does not say for which NPU it was compiled");
      if (reinterpret_cast<uintptr_t>(stream.data) % kAlignment != 0) {
        return refuse(sentence, "its commands lie at the address ", reinterpret_cast<uintptr_t>(stream.data),
                      ", which is no multiple of 16");
      }
      if (!check_commands(npu, stream, regions, operations, sentence)) return false;
    }
    at += 1 + length;
  }
  return has_stream || refuse(sentence, "it has no commands");
}

}  // namespace

bool check_invocation(const Npu &npu, edgecore_bytes payload, const Regions &regions, Sentence &sentence) {
  sentence << "The stub of an ethos-u" << npu.family << "-" << npu.macs;
  Sentence reason;
  uint64_t operations = 0;
  if (!check_regions(regions, reason) || !check_payload(npu, payload, regions, operations, reason)) {
    return refuse(sentence, " refuses a command stream: ", reason.text(), ".");
  }
  sentence << " accepts a command stream of " << operations << " operations; bytes:";
  for (int i = 0; i < regions.count; ++i) {
    sentence << (i == 0 ? " " : ", ") << region_name(static_cast<uint64_t>(i)) << " " << regions.sizes[i];
  }
  sentence << ".";
  return true;
}

}  // namespace edgecore::ethosu
