// A backend built for another version of the native interface, EDGECORE_MAJOR.EDGECORE_MINOR. It includes no header:
// only the members up to `version` keep their offsets in all versions. The host must not call any of its functions.
#include <stdint.h>
#include <stdlib.h>

#define TEXT(literal) \
  { literal, sizeof(literal) - 1 }

typedef struct {
  const char *data;
  uint64_t size;
} text;

static const struct {
  uint32_t struct_size;
  uint16_t major, minor, min_host_major, min_host_minor;
  uint32_t flags, features, reserved;
  text backend_id, distribution, version;
  void (*functions[8])(void);  // fewer than today
} table = {sizeof(table),
           EDGECORE_MAJOR,
           EDGECORE_MINOR,
           EDGECORE_MAJOR,
           EDGECORE_MINOR,
           0,
           0,
           0,
           TEXT("OldSkeleton"),
           TEXT("edgecore-old-skeleton"),
           TEXT("1.0"),
           {abort, abort, abort, abort, abort, abort, abort, abort}};

__attribute__((visibility("default"))) const void *edgecore_backend_v0(void) { return &table; }
