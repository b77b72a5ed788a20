#include "blob.h"

#include <algorithm>

#include "json.h"

namespace edgecore::coreml {
namespace {

using edgecore::backend::damaged;

constexpr std::string_view kReference = "CMJR";  // start of a blob that refers to a folder in the named data
constexpr size_t kMaxText = 1 << 20;             // maximum bytes of a JSON text; the parsed text takes much more
constexpr int kMaxDepth = 16;
constexpr uint64_t kFile = 0, kFolder = 1;
constexpr int32_t kFloat16 = 5, kFloat32 = 6;  // values of the .pte's enum ScalarType

bool is_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

// Collects the files of a folder. Walks the blob's tree of nodes from the root, and checks each node.
class Tree {
 public:
  Tree(const std::vector<Json> &nodes, edgecore_bytes data) : nodes_(nodes), data_(data), used_(nodes.size(), false) {}

  void collect(uint64_t index, const std::string &path, int depth, std::vector<File> &files) {
    if (index >= nodes_.size() || used_[index] || depth > kMaxDepth) {
      damaged("%llu is no node of its tree of files, or two folders have it", static_cast<unsigned long long>(index));
    }
    used_[index] = true;
    const Json &node = nodes_[index], &region = node.at("dataRegion", Json::Kind::kObject);
    const Json &children = node.at("children", Json::Kind::kObject);
    const uint64_t kind = node.size_at("kind"), offset = region.size_at("offset"), size = region.size_at("size");
    if (kind == kFile) {
      if (path.empty() || !children.members.empty()) damaged("a node of its tree of files is no file");
      if (offset > data_.size || size > data_.size - offset) damaged("the file '%s' lies outside of it", path.c_str());
      files.push_back({path, {data_.data + offset, size}});
      return;
    }
    if (kind != kFolder) damaged("a node of its tree of files is neither file nor folder");
    for (const auto &[name, child] : children.members) {
      if (!is_name(name)) damaged("'%s' is no name of a file", name.c_str());
      collect(children.size_at(name), path.empty() ? name : path + "/" + name, depth + 1, files);
    }
  }

 private:
  const std::vector<Json> &nodes_;
  edgecore_bytes data_;
  std::vector<bool> used_;
};

const File *find(const std::vector<File> &files, std::string_view path) {
  const auto found = std::find_if(files.begin(), files.end(), [&](const File &file) { return file.path == path; });
  return found == files.end() ? nullptr : &*found;
}

std::string_view to_view(edgecore_bytes bytes) {
  return {reinterpret_cast<const char *>(bytes.data), static_cast<size_t>(bytes.size)};
}

Json parse(edgecore_bytes content) {
  size_t end = 0;
  if (content.size > kMaxText) damaged("it has JSON of %llu bytes", static_cast<unsigned long long>(content.size));
  return parse_json(to_view(content), &end);
}

StateInfo read_state(const Json &item) {
  StateInfo state;
  state.buffer = item.text_at("buffer");
  state.name = item.text_at("state");
  const std::string &dtype = item.text_at("dtype");
  if (dtype != "float16" && dtype != "float32") damaged("the state '%s' has no dtype", state.buffer.c_str());
  state.scalar_type = dtype == "float16" ? kFloat16 : kFloat32;
  state.has_initial = item.find("initial") != nullptr;
  uint64_t bytes = dtype == "float16" ? 2 : 4;
  for (const Json &size : item.at("shape", Json::Kind::kArray).items) {
    state.shape.push_back(size.integer);
    if (size.kind != Json::Kind::kInteger || size.integer < 1 ||
        __builtin_mul_overflow(bytes, static_cast<uint64_t>(size.integer), &bytes)) {
      damaged("the state '%s' has no shape", state.buffer.c_str());
    }
  }
  return state;
}

}  // namespace

std::vector<File> read_files(edgecore_bytes folder) {
  const std::string_view bytes = to_view(folder);
  const std::string_view end = bytes.substr(bytes.size() - std::min(bytes.size(), kMaxText));
  const std::string text(end.rbegin(), end.rend());
  size_t size = 0;
  const Json tree = parse_json(text, &size);
  const std::vector<Json> &nodes = tree.at("nodes", Json::Kind::kArray).items;
  if (nodes.empty()) damaged("its tree of files has no nodes");
  std::vector<File> files;
  Tree(nodes, {folder.data, folder.size - size}).collect(nodes.size() - 1, "", 0, files);
  return files;
}

Package read_package(edgecore_bytes blob, const std::function<edgecore_bytes(std::string_view)> &named_data) {
  Package package;
  package.folder = blob;
  if (to_view(blob).substr(0, kReference.size()) == kReference) {
    const Json reference = parse({blob.data + kReference.size(), blob.size - kReference.size()});
    if (reference.size_at("version") != 1) damaged("it refers to named data in an unknown way");
    package.folder = named_data(reference.text_at("key"));
    package.function = reference.text_at("functionName");
  }
  package.files = read_files(package.folder);
  const File *file = find(package.files, "metadata.json");
  if (file == nullptr) damaged("it has no metadata.json");
  const Json metadata = parse(file->content);
  const Json &names = package.function.empty()
                          ? metadata
                          : metadata.at("methods", Json::Kind::kObject).at(package.function, Json::Kind::kObject);
  package.inputs = names.texts_at("inputNames");
  package.outputs = names.texts_at("outputNames");
  std::vector<std::string> inputs = package.inputs;
  std::sort(inputs.begin(), inputs.end());
  const auto same = std::adjacent_find(inputs.begin(), inputs.end());
  if (same != inputs.end()) damaged("two of its inputs are '%s'", same->c_str());
  if (names.find("edgecoreStates") == nullptr) return package;
  for (const Json &item : names.at("edgecoreStates", Json::Kind::kArray).items) {
    package.states.push_back(read_state(item));
  }
  return package;
}

}  // namespace edgecore::coreml
