#include "host/manifest.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "edgecore/module.h"
#include "error_text.h"
#include "pte_builder.h"

namespace edgecore {
namespace {

using Strings = std::vector<std::string>;

const std::string kAbi = std::to_string(EDGECORE_ABI_MAJOR) + "." + std::to_string(EDGECORE_ABI_MINOR);

bool says(const Error &error, const std::string &part) { return text_of(error).find(part) != std::string::npos; }

std::string manifest_of(const std::string &abi, const std::string &id, const std::string &library,
                        const std::string &rest = "") {
  return "{\"abi\": \"" + abi + "\", \"backend_id\": \"" + id + "\", \"library\": \"" + library + "\"" + rest + "}\n";
}

// A folder with files, removed at the end of the test.
class Folder {
 public:
  Folder() { path = mkdtemp(name_); }
  ~Folder() {
    for (const std::string &file : files_) unlink(file.c_str());
    rmdir(path.c_str());
  }
  std::string add(const char *name, const std::string &content) {
    files_.push_back(path + "/" + name);
    std::ofstream(files_.back(), std::ios::binary) << content;
    return files_.back();
  }
  std::string add_pipe(const char *name) {
    files_.push_back(path + "/" + name);
    EXPECT_EQ(mkfifo(files_.back().c_str(), 0600), 0);
    return files_.back();
  }

  std::string path;

 private:
  char name_[32] = "/tmp/edgecore_folder_XXXXXX";
  Strings files_;
};

TEST(Manifest, SaysWhereTheLibraryIs) {
  Manifest manifest;
  Error error;
  const std::string text =
      manifest_of("1.20", "ToyBackend", "../lib/toy.so", R"(, "later": 1, "options": {"a": true})");
  ASSERT_TRUE(read_manifest("/opt/x/toy.json", {text.data(), text.size()}, manifest, error).ok()) << text_of(error);
  EXPECT_EQ(manifest.library, "/opt/x/../lib/toy.so");
  EXPECT_EQ(manifest.abi.major, 1);
  EXPECT_EQ(manifest.abi.minor, 20);
  ASSERT_EQ(manifest.options.size(), 1u);
  EXPECT_EQ(manifest.options[0].key, "a");
}

TEST(Manifest, ABrokenManifestIsNamedWithTheReason) {
  const struct {
    std::string text, sentence;
  } cases[] = {{"{", "line 1: expected"},
               {"{\"abi\": \"0.3\", \"library\": \"x\"}", "it has no text backend_id"},
               {"{\"abi\": \"0.3\", \"backend_id\": {}, \"library\": \"x\"}", "it has no text backend_id"},
               {"{\"abi\": 3, \"backend_id\": \"x\", \"library\": \"x\"}", "it has no text abi"},
               {manifest_of("0.3", "x", ""), "it has no text library"},
               {manifest_of("0.3", "x", "y", ", \"options\": 1"), "options is no object"},
               {manifest_of("0.3.1", "x", "y"), "abi must be a version"},
               {manifest_of("0.", "x", "y"), "abi must be a version"},
               {manifest_of("0.03", "x", "y"), "abi must be a version"},
               {manifest_of("0.99999", "x", "y"), "abi must be a version"}};
  for (const auto &one : cases) {
    Manifest manifest;
    Error error;
    const StringView text(one.text.data(), one.text.size());
    EXPECT_EQ(read_manifest("/a/toy.json", text, manifest, error).code(), EDGECORE_INVALID_EXTERNAL_DATA) << one.text;
    EXPECT_TRUE(says(error, "/a/toy.json is broken: " + one.sentence)) << text_of(error);
  }
}

TEST(Manifest, TheFirstFolderWithAManifestIsUsed) {
  Folder first, second;
  second.add("toy.json", manifest_of(kAbi, "ToyBackend", "second.so"));
  Manifest manifest;
  Error error;
  const Strings folders = {first.path, second.path};
  EXPECT_TRUE(find_manifest("ToyBackend", folders, manifest, error).ok()) << text_of(error);
  EXPECT_EQ(manifest.library, second.path + "/second.so");
  first.add("other.json", manifest_of(kAbi, "OtherBackend", "other.so"));
  first.add("toy.json.old", manifest_of(kAbi, "ToyBackend", "old.so"));
  first.add(".toy.json", manifest_of(kAbi, "ToyBackend", "hidden.so"));
  first.add("broken.json", "{");
  first.add("newer.json", manifest_of("99.0", "ToyBackend", "newer.so"));
  first.add_pipe("pipe.json");  // a pipe without a writer, which a blocking open would wait for
  EXPECT_TRUE(find_manifest("ToyBackend", folders, manifest, error).ok()) << text_of(error);
  EXPECT_EQ(manifest.library, second.path + "/second.so");
  first.add("toy.json", manifest_of(kAbi, "ToyBackend", "first.so"));
  EXPECT_TRUE(find_manifest("ToyBackend", folders, manifest, error).ok());
  EXPECT_EQ(manifest.library, first.path + "/first.so");
  first.add("again.json", manifest_of(kAbi, "ToyBackend", "again.so"));
  EXPECT_EQ(find_manifest("ToyBackend", folders, manifest, error).code(), EDGECORE_INVALID_ARGUMENT);
  EXPECT_TRUE(says(error, "Both " + first.path + "/again.json and " + first.path + "/toy.json")) << text_of(error);
}

TEST(Manifest, AnErrorSaysWhyNoManifestWasFound) {
  Folder folder, other;
  Manifest manifest;
  Error error;
  const auto code = [&](const Strings &folders) {
    return find_manifest("ToyBackend", folders, manifest, error).code();
  };
  EXPECT_EQ(code({}), EDGECORE_NOT_FOUND);
  EXPECT_TRUE(says(error, "name folders of manifests, such as by EDGECORE_BACKEND_PATH.")) << text_of(error);
  EXPECT_EQ(code({folder.path, other.path}), EDGECORE_NOT_FOUND);
  EXPECT_TRUE(says(error, "'ToyBackend' is in " + folder.path + ", " + other.path + ".")) << text_of(error);
  for (const char *relative : {"", ".", "backends"}) {
    EXPECT_EQ(code({relative}), EDGECORE_INVALID_ARGUMENT);
    EXPECT_TRUE(says(error, "absolute")) << text_of(error);
  }
  EXPECT_EQ(code({"/no/such/folder"}), EDGECORE_ACCESS_FAILED);
  EXPECT_TRUE(says(error, "/no/such/folder cannot be read: No such")) << text_of(error);
  const std::string broken = folder.add("a.json", std::string(70000, ' '));
  EXPECT_EQ(code({folder.path}), EDGECORE_INVALID_EXTERNAL_DATA);
  EXPECT_TRUE(says(error, broken + " is broken: it has more than 65536 bytes")) << text_of(error);
  const std::string newer = folder.add("z.json", manifest_of("99.0", "ToyBackend", "/no/library.so"));
  EXPECT_EQ(code({folder.path}), EDGECORE_NOT_SUPPORTED);  // no library was opened
  EXPECT_TRUE(says(error, newer) && says(error, "99.0") && says(error, kAbi)) << text_of(error);
}

TEST(Manifest, AnEnvironmentVariableNamesFolders) {
  unsetenv("EDGECORE_BACKEND_PATH");
  EXPECT_EQ(backend_path(), Strings{});
  setenv("EDGECORE_BACKEND_PATH", ":/a::b:/c d:", 1);  // an empty entry is not the current directory
  EXPECT_EQ(backend_path(), (Strings{"/a", "b", "/c d"}));
  unsetenv("EDGECORE_BACKEND_PATH");
}

// Loads a program for the toy backend, which the manifests in `folders` name, and runs it on {1, 2}. The backend adds
// its option `offset`, 1 by default, to each element. Returns {} if no manifest is found.
std::vector<float> run_toy(const Strings &folders, std::vector<edgecore_option> options, Error &error) {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({2}), y = pte.add_tensor({2});
  pte.delegate(pte.add_delegate("ToyBackend", {'t', 'o', 'y', '1'}), {x, y});
  pte.inputs = {x};
  pte.outputs = {y};
  const std::vector<uint8_t> bytes = pte.finish();
  Module module;
  std::vector<Tensor> outputs;
  EXPECT_TRUE(module.open({bytes.data(), bytes.size()}, error).ok()) << text_of(error);
  EXPECT_EQ(module.missing_backends().size(), 1u);
  for (const StringView id : module.missing_backends()) {
    if (!module.find_backend(id, folders, {options.data(), options.size()}, error).ok()) return {};
  }
  EXPECT_TRUE(module.missing_backends().empty());
  EXPECT_TRUE(module.load_methods({}, error).ok()) << text_of(error);
  EXPECT_TRUE(module.run("forward", {Tensor::of<float>({2}, {1, 2})}, outputs, error).ok()) << text_of(error);
  const float *out = static_cast<const float *>(outputs[0].data());
  return {out, out + 2};
}

TEST(Manifest, AModuleLoadsWhatItsFileNeeds) {
  Folder folder;
  Error error;
  EXPECT_EQ(run_toy({folder.path}, {}, error), std::vector<float>{});
  const std::string path =
      folder.add("toy.json", manifest_of(kAbi, "ToyBackend", TOY_BACKEND, R"(, "options": {"offset": 5})"));
  EXPECT_EQ(run_toy({folder.path}, {}, error), (std::vector<float>{6, 7})) << text_of(error);
  edgecore_option offset = {};
  offset.name = {"offset", 6};
  offset.type = EDGECORE_OPTION_FLOAT;
  offset.value.d = 10;
  EXPECT_EQ(run_toy({folder.path}, {offset}, error), (std::vector<float>{11, 12})) << text_of(error);
  folder.add("toy.json", manifest_of(kAbi, "ToyBackend", TOY_BACKEND, R"(, "options": {"ofset": 5})"));
  EXPECT_EQ(run_toy({folder.path}, {}, error), std::vector<float>{});
  EXPECT_TRUE(says(error, "no option 'ofset'") && says(error, "The manifest is " + path)) << text_of(error);
  folder.add("toy.json", manifest_of(kAbi, "ToyBackend", "nothing.so"));
  EXPECT_EQ(run_toy({folder.path}, {}, error), std::vector<float>{});
  EXPECT_TRUE(says(error, folder.path + "/nothing.so cannot be loaded") && says(error, path)) << text_of(error);
}

}  // namespace
}  // namespace edgecore
