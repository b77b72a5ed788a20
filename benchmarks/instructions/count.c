// A plugin of qemu 7.2 and later that counts the executed instructions, and the bytes that they load and store, for
// each basic block of an emulated program. Debian does not package qemu's header for plugins, so this file declares the
// parts of the header that it needs.
// At the end of the program, the plugin writes lines "FILE OFFSET INSTRUCTIONS LOADED STORED" to the file in the
// environment variable EDGECORE_INSTRUCTIONS. A block starts at OFFSET in FILE, the program or a library. If qemu
// emulates a whole machine, FILE is "-" and OFFSET is an address in the memory of this machine.
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;  // a block
struct qemu_plugin_insn;
struct qemu_info_t {
  const char *target_name;
  struct {
    int lowest, current;
  } version;
  bool is_machine;  // true if qemu emulates a whole machine, false for a single program
};
enum { ADD_U64 = 0 };                  // enum qemu_plugin_op
enum { NO_REGISTERS = 0 };             // enum qemu_plugin_cb_flags
enum { READS_AND_WRITES = 3 };         // enum qemu_plugin_mem_rw
typedef uint32_t qemu_plugin_meminfo;  // an access to memory

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*translated)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int operation, void *target,
                                              uint64_t value);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *instruction,
                                      void (*accessed)(unsigned, qemu_plugin_meminfo, uint64_t, void *), int flags,
                                      int accesses, void *context);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*ended)(plugin_id, void *), void *context);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *instruction);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *instruction);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo access);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo access);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

struct block {
  struct block *next;
  uintptr_t address;
  uint64_t instructions, loaded, stored;
};
static struct block *blocks;
static bool is_machine;

static void accessed(unsigned processor, qemu_plugin_meminfo access, uint64_t address, void *context) {
  (void)processor;
  (void)address;
  struct block *block = context;
  *(qemu_plugin_mem_is_store(access) ? &block->stored : &block->loaded) += 1u << qemu_plugin_mem_size_shift(access);
}

static void translated(plugin_id id, struct qemu_plugin_tb *translation) {
  (void)id;
  const size_t count = qemu_plugin_tb_n_insns(translation);
  struct block *block = calloc(1, sizeof *block);
  if (block == NULL) abort();
  const struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(translation, 0);
  block->address = is_machine ? (uintptr_t)qemu_plugin_insn_vaddr(first) : (uintptr_t)qemu_plugin_insn_haddr(first);
  block->next = blocks;
  blocks = block;
  qemu_plugin_register_vcpu_tb_exec_inline(translation, ADD_U64, &block->instructions, count);
  for (size_t i = 0; i < count; ++i) {
    struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(translation, i);
    qemu_plugin_register_vcpu_mem_cb(instruction, accessed, NO_REGISTERS, READS_AND_WRITES, block);
  }
}

static void write_block(FILE *output, const char *file, uintptr_t offset, const struct block *block) {
  if (block->instructions == 0) return;
  fprintf(output, "%s %" PRIuPTR " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", file, offset, block->instructions,
          block->loaded, block->stored);
}

// Finds the file of each block in /proc/self/maps: the memory of an emulated program, with the files that are mapped
// into it, is a part of the memory of this process.
static void ended(plugin_id id, void *context) {
  (void)id;
  (void)context;
  const char *path = getenv("EDGECORE_INSTRUCTIONS");
  FILE *output = path != NULL ? fopen(path, "w") : NULL;
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[4096], file[2048];
  uintptr_t start, end, offset;
  for (const struct block *block = blocks; output != NULL && is_machine && block != NULL; block = block->next) {
    write_block(output, "-", block->address, block);
  }
  while (output != NULL && !is_machine && maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    const char *format = "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNxPTR " %*s %*s %2047s";
    if (sscanf(line, format, &start, &end, &offset, file) != 4) continue;
    for (const struct block *block = blocks; block != NULL; block = block->next) {
      if (block->address < start || block->address >= end) continue;
      write_block(output, file, block->address - start + offset, block);
    }
  }
  if (output != NULL) fclose(output);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const struct qemu_info_t *info, int argc,
                                                               char **argv) {
  is_machine = info->is_machine;
  (void)argc;
  (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ended, NULL);
  return 0;
}
