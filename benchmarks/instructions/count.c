// A plugin of qemu 7.2 and later that counts the instructions that an emulated program executes, for each function of
// the program. Debian does not package the header, so what is needed of it is declared here.
// At its end it writes lines "COUNT FUNCTION" to the file that the environment variable EDGECORE_INSTRUCTIONS names.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;  // a block of instructions without a branch inside
struct qemu_plugin_insn;
struct qemu_info_t;
enum { ADD_U64 = 0 };  // enum qemu_plugin_op

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*translated)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int operation, void *target,
                                              uint64_t value);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*ended)(plugin_id, void *), void *context);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *instruction);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { kSlots = 1 << 16 };
static struct {
  char *name;
  uint64_t count;
} functions[kSlots];  // a hash table with open addressing

static uint64_t *count_of(const char *name) {
  size_t slot = 5381;
  for (const char *c = name; *c != 0; ++c) slot = slot * 33 + (unsigned char)*c;
  for (slot %= kSlots; functions[slot].name != NULL; slot = (slot + 1) % kSlots) {
    if (strcmp(functions[slot].name, name) == 0) return &functions[slot].count;
  }
  functions[slot].name = strdup(name);
  return &functions[slot].count;
}

static void translated(plugin_id id, struct qemu_plugin_tb *block) {
  (void)id;
  const char *name = qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(block, 0));
  uint64_t *count = count_of(name != NULL ? name : "(libraries)");
  qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, count, qemu_plugin_tb_n_insns(block));
}

static void ended(plugin_id id, void *context) {
  (void)id;
  (void)context;
  const char *path = getenv("EDGECORE_INSTRUCTIONS");
  FILE *file = path != NULL ? fopen(path, "w") : NULL;
  for (size_t i = 0; file != NULL && i < kSlots; ++i) {
    if (functions[i].name != NULL) fprintf(file, "%" PRIu64 " %s\n", functions[i].count, functions[i].name);
  }
  if (file != NULL) fclose(file);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const struct qemu_info_t *info, int argc,
                                                               char **argv) {
  (void)info;
  (void)argc;
  (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ended, NULL);
  return 0;
}
