// Manifests: files NAME.json that say where the library of a backend is.
//
//   {"abi": "0.3", "backend_id": "AcmeBackend", "library": "../lib/libedgecore_acme.so", "options": {"device": "npu"}}
//
// A relative library is relative to the manifest. `options`, which may be missing, are for loading; other keys are left
// to later versions.
#ifndef EDGECORE_HOST_MANIFEST_H_
#define EDGECORE_HOST_MANIFEST_H_

#include <string>
#include <vector>

#include "edgecore/host.h"
#include "host/flat_json.h"

namespace edgecore {

struct Manifest {
  std::string path;     // of the file
  AbiVersion abi = {};  // what the library was built for
  std::string backend_id;
  std::string library;            // absolute
  std::vector<JsonItem> options;  // strings, integers and bools
};

// What `text`, the content of the file at the absolute `path`, says.
// Errors: INVALID_EXTERNAL_DATA with the path and what is wrong.
Status read_manifest(const std::string &path, StringView text, Manifest &manifest, Error &error);

// The manifest of `backend_id` in the first of `folders` that has one for this interface. Files of another interface
// are passed over. Broken files and folders that cannot be read are, too, and told if there is no other manifest.
// Errors: INVALID_ARGUMENT (a folder that is not absolute, two manifests in one folder), NOT_FOUND (none),
// NOT_SUPPORTED (for another interface only), INVALID_EXTERNAL_DATA (a broken one), ACCESS_FAILED.
Status find_manifest(StringView backend_id, const std::vector<std::string> &folders, Manifest &manifest, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_MANIFEST_H_
