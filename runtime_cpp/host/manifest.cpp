#include "host/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/auxv.h>
#else
#include <unistd.h>
#endif

#include <algorithm>

#include "edgecore/file_data_loader.h"
#include "edgecore/module.h"

namespace edgecore {
namespace {

constexpr size_t kMaxBytes = 65536;

StringView view(const std::string &text) { return {text.data(), text.size()}; }

// Reads a number of one to four digits without leading zeros, and advances `at` past it. Returns false on failure.
bool read_number(const char *&at, uint16_t &number) {
  const char *first = at;
  for (number = 0; *at >= '0' && *at <= '9' && at - first < 4; ++at) {
    number = static_cast<uint16_t>(number * 10 + (*at - '0'));
  }
  return at != first && (*first != '0' || at == first + 1);
}

bool read_version(const std::string &text, AbiVersion &version) {
  const char *at = text.c_str();
  return read_number(at, version.major) && *at++ == '.' && read_number(at, version.minor) && *at == '\0';
}

Status broken(const std::string &path, StringView why, Error &error) {
  return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, "The manifest ", path.c_str(), " is broken: ", why);
}

// Lists the paths of all manifests (files NAME.json) in a folder, sorted.
Status list_manifests(const std::string &folder, std::vector<std::string> &paths, Error &error) {
  DIR *entries = opendir(folder.c_str());
  if (entries == nullptr) {
    return fail(error, EDGECORE_ACCESS_FAILED, "The folder ", folder.c_str(), " cannot be read: ", strerror(errno),
                ".");
  }
  constexpr StringView kEnd = ".json";
  while (const dirent *entry = readdir(entries)) {
    const StringView name(entry->d_name);
    if (name.size() <= kEnd.size() || name.data()[0] == '.') continue;
    if (StringView(name.data() + name.size() - kEnd.size(), kEnd.size()) != kEnd) continue;
    paths.push_back(folder + "/" + entry->d_name);
  }
  closedir(entries);
  std::sort(paths.begin(), paths.end());
  return {};
}

Status load_manifest(const std::string &path, Manifest &manifest, Error &error) {
  FileDataLoader file;
  EDGECORE_TRY(file.open(path.c_str(), error));  // the message of this error contains the path
  if (file.size() > kMaxBytes) return broken(path, "it has more than 65536 bytes.", error);
  const Result<Bytes> loaded = file.load(0, static_cast<size_t>(file.size()), LoadUse::kTables, error);
  EDGECORE_TRY(loaded.status());
  const Bytes bytes = *loaded;
  return read_manifest(path, {reinterpret_cast<const char *>(bytes.data()), bytes.size()}, manifest, error);
}

// The failure that find_manifest reports if no manifest is usable. This is the first failure, unless a manifest is for
// another interface version (`replace`): then the message about that manifest is kept, because it tells which package
// to update.
struct Failure {
  Status status;
  Error error;

  void record(Status new_status, const Error &new_error, bool replace) {
    if (!status.ok() && !replace) return;
    status = new_status;
    error = new_error;
  }
};

Status find_in_folder(StringView backend_id, const std::string &folder, Manifest &manifest, bool &found,
                      Failure &failure, Error &error) {
  std::vector<std::string> paths;
  const Status listed = list_manifests(folder, paths, error);
  if (!listed.ok()) failure.record(listed, error, false);
  for (const std::string &path : paths) {
    Manifest candidate;
    const Status read = load_manifest(path, candidate, error);
    if (!read.ok()) failure.record(read, error, false);
    if (!read.ok() || view(candidate.backend_id) != backend_id) continue;
    const Status fits = check_versions({candidate.abi, {0, 0}}, kHostVersions, {}, path.c_str(), error);
    if (!fits.ok()) {
      failure.record(fits, error, true);
      continue;
    }
    if (found) {
      return fail(error, EDGECORE_INVALID_ARGUMENT, "Both ", manifest.path.c_str(), " and ", path.c_str(),
                  " are manifests of the backend '", backend_id, "': keep one of them.");
    }
    found = true;
    manifest = candidate;
  }
  return {};
}

}  // namespace

Status read_manifest(const std::string &path, StringView text, Manifest &manifest, Error &error) {
  manifest = {};
  manifest.path = path;
  std::vector<JsonItem> items;
  if (!read_flat_json(text, items, error).ok()) {
    const Error reason = error;
    return broken(path, reason.sentence(), error);
  }
  std::string abi;
  const struct {
    const char *key;
    std::string &text;
  } required[] = {{"abi", abi}, {"backend_id", manifest.backend_id}, {"library", manifest.library}};
  for (JsonItem &item : items) {
    if (item.section == "options") manifest.options.push_back(item);
    if (!item.section.empty()) continue;
    if (item.key == "options" && item.type != JsonType::kObject) return broken(path, "options is no object.", error);
    for (const auto &field : required) {
      if (item.key == field.key && item.type == JsonType::kString) field.text = item.text;
    }
  }
  for (const auto &field : required) {
    if (!field.text.empty()) continue;
    const std::string why = std::string("it has no text ") + field.key + ".";
    return broken(path, view(why), error);
  }
  if (!read_version(abi, manifest.abi)) return broken(path, "abi must be a version in quotes, such as \"0.3\".", error);
  if (manifest.library[0] != '/') manifest.library = path.substr(0, path.rfind('/') + 1) + manifest.library;
  return {};
}

Status find_manifest(StringView backend_id, const std::vector<std::string> &folders, Manifest &manifest, Error &error) {
  Failure failure;
  for (const std::string &folder : folders) {
    if (folder.empty() || folder[0] != '/') {
      return fail(error, EDGECORE_INVALID_ARGUMENT, "The folder of backends '", folder.c_str(),
                  "' is not given by an absolute path.");
    }
    bool found = false;
    EDGECORE_TRY(find_in_folder(backend_id, folder, manifest, found, failure, error));
    if (found) return {};
  }
  if (!failure.status.ok()) {
    return fail(error, failure.status.code(), "No manifest of the backend '", backend_id,
                "' can be used: ", failure.error.sentence());
  }
  (void)fail(error, EDGECORE_NOT_FOUND, "No manifest of the backend '", backend_id, "' is in");
  const char *separator = " ";
  for (const std::string &folder : folders) {
    (void)extend(error, separator, folder.c_str());
    separator = ", ";
  }
  return extend(error,
                folders.empty() ? " any folder: name folders of manifests, such as by EDGECORE_BACKEND_PATH." : ".");
}

std::vector<std::string> backend_path() {
#if defined(__linux__)
  const bool foreign = getauxval(AT_SECURE) != 0;
#else
  const bool foreign = issetugid() != 0;
#endif
  const char *at = foreign ? nullptr : getenv("EDGECORE_BACKEND_PATH");
  std::vector<std::string> folders;
  while (at != nullptr && *at != '\0') {
    const size_t size = strcspn(at, ":");
    if (size != 0) folders.emplace_back(at, size);
    at += size + (at[size] == ':' ? 1 : 0);
  }
  return folders;
}

}  // namespace edgecore
