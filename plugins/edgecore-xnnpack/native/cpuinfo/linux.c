/* Linux: reads the files in which the kernel describes the processors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "processor.h"

/* Reads the first line of <root>/sys/devices/system/cpu/cpu<core>/<name> without its end. */
static bool read_line(const char *root, int core, const char *name, char *line, int size) {
  char path[256];
  snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/%s", root, core, name);
  FILE *file = fopen(path, "r");
  if (file == NULL) return false;
  const bool is_read = fgets(line, size, file) != NULL;
  fclose(file);
  if (is_read) line[strcspn(line, "\n")] = '\0';
  return is_read;
}

int edgecore_fastest_core(const char *root) {
  enum { kMaxCores = 1024 };
  int fastest = 0;
  unsigned long most = 0;
  char line[32];
  for (int core = 0; core < kMaxCores && read_line(root, core, "cpu_capacity", line, sizeof line); ++core) {
    const unsigned long capacity = strtoul(line, NULL, 10);
    if (capacity > most) {
      most = capacity;
      fastest = core;
    }
  }
  return fastest;
}

/* Builds the value of a core's MIDR_EL1 from /proc/cpuinfo. On Arm, this file has a paragraph for each running core,
 * with lines such as "processor : 0" and "CPU part : 0xd03". */
static bool read_proc(const char *root, int core, uint32_t *midr) {
  static const struct {
    const char *key;
    int shift;
  } kFields[] = {{"CPU implementer", 24}, {"CPU variant", 20}, {"CPU part", 4}, {"CPU revision", 0}};
  char path[256], line[512];
  snprintf(path, sizeof path, "%s/proc/cpuinfo", root);
  FILE *file = fopen(path, "r");
  if (file == NULL) return false;
  unsigned found = 0;
  long current = 0;
  *midr = 0xFu << 16; /* architecture field: 0xF means "described by other registers" */
  while (fgets(line, sizeof line, file) != NULL) {
    const char *colon = strchr(line, ':');
    if (colon == NULL) continue;
    if (strncmp(line, "processor", 9) == 0) current = strtol(colon + 1, NULL, 0);
    for (unsigned i = 0; i < sizeof kFields / sizeof kFields[0]; ++i) {
      if (current != core || (found >> i & 1) != 0 || strncmp(line, kFields[i].key, strlen(kFields[i].key)) != 0)
        continue;
      *midr |= (uint32_t)strtoul(colon + 1, NULL, 0) << kFields[i].shift;
      found |= 1u << i;
    }
  }
  fclose(file);
  return found == 0xF;
}

bool edgecore_read_midr(const char *root, int core, uint32_t *midr) {
  char line[64];
  if (read_line(root, core, "regs/identification/midr_el1", line, sizeof line)) {
    *midr = (uint32_t)strtoull(line, NULL, 16);
    return true;
  }
  return read_proc(root, core, midr);
}

void edgecore_read_caches(const char *root, int core, struct edgecore_processor *processor) {
  char name[64], line[64];
  for (int index = 0; index < 8; ++index) {
    snprintf(name, sizeof name, "cache/index%d/type", index);
    if (!read_line(root, core, name, line, sizeof line)) return;
    if (strcmp(line, "Instruction") == 0) continue;
    snprintf(name, sizeof name, "cache/index%d/level", index);
    const long level = read_line(root, core, name, line, sizeof line) ? strtol(line, NULL, 10) : 0;
    if (level != 1 && level != 2) continue;
    struct cpuinfo_cache *cache = level == 1 ? &processor->l1d : &processor->l2;
    snprintf(name, sizeof name, "cache/index%d/size", index);
    if (!read_line(root, core, name, line, sizeof line)) continue;
    char *unit;
    const unsigned long size = strtoul(line, &unit, 10);
    cache->size = (uint32_t)(size << (*unit == 'K' ? 10 : *unit == 'M' ? 20 : 0));
    snprintf(name, sizeof name, "cache/index%d/ways_of_associativity", index);
    cache->associativity = read_line(root, core, name, line, sizeof line) ? (uint32_t)strtoul(line, NULL, 10) : 0;
  }
}
