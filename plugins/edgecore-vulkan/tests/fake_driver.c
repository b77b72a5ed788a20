// A Vulkan driver for the loader, for test_doctor.py: FAKE_DEVICES devices (0 or 1) that know Vulkan 1.0 only.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Function)(void);

// The loader puts its own pointer in the place of this number.
static uintptr_t instance[2] = {0x01CDC0DE}, device[2] = {0x01CDC0DE};

struct Properties {  // the beginning of VkPhysicalDeviceProperties
  uint32_t api_version, driver_version, vendor, device, type;
  char name[256];
};

static int nothing(void) { return 0; }

static int create_instance(const void *info, const void *allocator, void **created) {
  (void)info, (void)allocator;
  *created = instance;
  return 0;
}

static int instance_version(uint32_t *version) {
  *version = 1u << 22 | 1u << 12;
  return 0;
}

static int extensions(const void *of, const char *layer, uint32_t *count) {
  (void)of, (void)layer;
  *count = 0;
  return 0;
}

static int instance_extensions(const char *layer, uint32_t *count) { return extensions(NULL, layer, count); }

static int enumerate_devices(const void *of, uint32_t *count, void **devices) {
  (void)of;
  const char *wanted = getenv("FAKE_DEVICES");
  *count = wanted != NULL && strcmp(wanted, "1") == 0;
  if (devices != NULL && *count == 1) devices[0] = device;
  return 0;
}

static void properties(const void *of, struct Properties *result) {
  (void)of;
  result->api_version = 1u << 22;
  result->type = 1;
  strcpy(result->name, "Fake GPU");
}

static void nothing_of(const void *of, uint32_t *count) {
  (void)of;
  *count = 0;
}

Function vk_icdGetInstanceProcAddr(void *of, const char *name) {
  (void)of;
  if (strcmp(name, "vkCreateInstance") == 0) return (Function)create_instance;
  if (strcmp(name, "vkEnumerateInstanceVersion") == 0) return (Function)instance_version;
  if (strcmp(name, "vkEnumerateInstanceExtensionProperties") == 0) return (Function)instance_extensions;
  if (strcmp(name, "vkEnumerateDeviceExtensionProperties") == 0) return (Function)extensions;
  if (strcmp(name, "vkEnumeratePhysicalDevices") == 0) return (Function)enumerate_devices;
  if (strcmp(name, "vkGetPhysicalDeviceProperties") == 0) return (Function)properties;
  if (strcmp(name, "vkGetPhysicalDeviceQueueFamilyProperties") == 0) return (Function)nothing_of;
  if (strncmp(name, "vkEnumeratePhysicalDeviceGroups", 31) == 0 || strncmp(name, "vk_", 3) == 0) return NULL;
  return (Function)nothing;
}

int vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
  if (*version > 5) *version = 5;
  return 0;
}
