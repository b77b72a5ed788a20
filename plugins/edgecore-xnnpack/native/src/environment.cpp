#include "environment.h"

#include <link.h>
#include <sys/auxv.h>

#include <cstring>

#include "hardware.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace edgecore::xnnpack {

namespace {

#if defined(__x86_64__)
void describe_processor(std::vector<uint64_t> *words) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __get_cpuid(1, &a, &b, &c, &d);  // skip CPUID's EBX: it has the current core's number
  words->insert(words->end(), {a, c, d});
  if ((c & bit_OSXSAVE) != 0) {
    unsigned low = 0, high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    words->insert(words->end(), {low, high});
  }
  for (unsigned leaf : {0u, 1u}) {
    a = b = c = d = 0;
    __get_cpuid_count(7, leaf, &a, &b, &c, &d);
    words->insert(words->end(), {a, b, c, d});
  }
}
#else
void describe_processor(std::vector<uint64_t> *words) {
  words->insert(words->end(), {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)});
}
#endif

// The state of the search for the build id of the loaded binary that contains `address`.
struct Search {
  uintptr_t address;
  std::vector<uint64_t> *words;  // list to which the search appends the words of the build id
  bool has_build_id;
};

// Appends the build id to `search->words` if the note segment at `at` has it. An ELF note is a header with the sizes of
// a name and a description, followed by the name and the description, each padded to a multiple of four bytes.
void find_build_id(const char *at, uint64_t bytes, Search *search) {
  const char *const end = at + bytes;
  while (static_cast<uint64_t>(end - at) >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof(note));
    const char *name = at + sizeof(note);
    const char *description = name + (note.n_namesz + 3) / 4 * 4;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      for (uint32_t i = 0; i < note.n_descsz; ++i) search->words->push_back(static_cast<uint8_t>(description[i]));
      search->has_build_id = true;
    }
    at = description + (note.n_descsz + 3) / 4 * 4;
  }
}

int visit(dl_phdr_info *info, size_t, void *argument) {
  auto *search = static_cast<Search *>(argument);
  const ElfW(Phdr) *const headers = info->dlpi_phdr;
  bool is_searched_binary = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const uintptr_t start = info->dlpi_addr + headers[i].p_vaddr;
    is_searched_binary =
        is_searched_binary || (headers[i].p_type == PT_LOAD && search->address - start < headers[i].p_memsz);
  }
  if (!is_searched_binary) return 0;  // return 0: dl_iterate_phdr continues with the next binary
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (headers[i].p_type != PT_NOTE) continue;
    find_build_id(reinterpret_cast<const char *>(info->dlpi_addr + headers[i].p_vaddr), headers[i].p_memsz, search);
  }
  return 1;
}

}  // namespace

bool describe_environment(std::vector<uint64_t> *words) {
  describe_processor(words);
  const Hardware hardware = hardware_in_force();
  words->insert(words->end(), {hardware.flags, hardware.uarch});
  Search search = {reinterpret_cast<uintptr_t>(&describe_environment), words, false};
  dl_iterate_phdr(visit, &search);
  return search.has_build_id;
}

}  // namespace edgecore::xnnpack
