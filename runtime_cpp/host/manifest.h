// Reads manifests: files NAME.json that say where the library of a backend is.
//
//   {"abi": "0.3", "backend_id": "AcmeBackend", "library": "../lib/libedgecore_acme.so", "options": {"device": "npu"}}
//
// A relative path in `library` starts at the folder of the manifest. `options`, which may be missing, are passed to the
// backend when it opens a program. Other keys are ignored, because later versions may define them.
#ifndef EDGECORE_HOST_MANIFEST_H_
#define EDGECORE_HOST_MANIFEST_H_

#include <string>
#include <vector>

#include "edgecore/host.h"
#include "host/flat_json.h"

namespace edgecore {

struct Manifest {
  std::string path;     // path of the manifest file itself
  AbiVersion abi = {};  // version of the native interface that the library was built for
  std::string backend_id;
  std::string library;            // absolute path of the backend's library
  std::vector<JsonItem> options;  // the backend's options: strings, integers and booleans
};

// Parses `text`, the content of the manifest at the absolute `path`. Errors: INVALID_EXTERNAL_DATA with path and
// reason.
Status read_manifest(const std::string &path, StringView text, Manifest &manifest, Error &error);

// Finds the manifest of `backend_id` in the first of `folders` that has one for this version of the native interface.
// Skips manifests for other versions, broken files and unreadable folders. If no manifest is usable, the error reports
// the last skipped manifest for another version or, without such a manifest, the first failure. Errors:
// INVALID_ARGUMENT (a folder that is not absolute, two manifests in one folder), NOT_FOUND (no manifest), NOT_SUPPORTED
// (only manifests for other versions), INVALID_EXTERNAL_DATA (only broken manifests), ACCESS_FAILED.
Status find_manifest(StringView backend_id, const std::vector<std::string> &folders, Manifest &manifest, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_MANIFEST_H_
