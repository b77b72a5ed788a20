#include "host/manifest.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "edgecore/module.h"
#include "pte_builder.h"

namespace edgecore {
namespace {

using Strings = std::vector<std::string>;

const std::string kAbi = std::to_string(EDGECORE_ABI_MAJOR) + "." + std::to_string(EDGECORE_ABI_MINOR);

std::string sentence(const Error &error) { return {error.text, error.size}; }

bool says(const Error &error, const std::string &part) { return sentence(error).find(part) != std::string::npos; }

Status read(const std::string &text, std::vector<JsonItem> &items, Error &error) {
  return read_flat_json({text.data(), text.size()}, items, error);
}

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

TEST(FlatJson, ReadsStringsIntegersAndTruthValues) {
  std::vector<JsonItem> items;
  Error error;
  const std::string text =
      "\t{\"a\":\"x\\\"\\\\\\/\\n\\u00e9\\ud83d\\ude00\", \"b\" : -9223372036854775808,\r\n"
      "\"c\": {\"d\":true, \"e\":false ,\"f\":{}, \"g\": 0}}\n";
  ASSERT_FALSE(read(text, items, error).ok());  // f: deeper than one object in another
  ASSERT_TRUE(read("{\"c\": {}, \"d\": {\"c\": 1}}", items, error).ok()) << sentence(error);
  ASSERT_TRUE(read(text.substr(0, text.find("\"f\"")) + "\"g\": 0}}", items, error).ok()) << sentence(error);
  ASSERT_EQ(items.size(), 6u);
  EXPECT_EQ(items[0].text, "x\"\\/\n\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_EQ(items[1].number, INT64_MIN);
  EXPECT_EQ(items[2].type, JsonType::kObject);
  EXPECT_EQ(items[3].section, "c");
  EXPECT_EQ(items[3].number, 1);
  EXPECT_EQ(items[4].type, JsonType::kBool);
  EXPECT_EQ(items[5].type, JsonType::kInt);
}

TEST(FlatJson, RefusesEverythingElseWithItsLine) {
  const struct {
    std::string text;
    const char *sentence;
  } cases[] = {
      {"", "line 1: expected '{'"},
      {"\xef\xbb\xbf{}", "expected '{'"},
      {"[]", "expected '{'"},
      {"{", "expected '\"'"},
      {"{}{}", "expected nothing after the object"},
      {"{\n\n\"a\" 1}", "line 3: expected ':'"},
      {"{\"a\": 1 \"b\": 2}", "expected ',' or '}'"},
      {"{\"a\": 1,}", "expected '\"'"},
      {"{\"a\": 1, \"a\": 2}", "expected each key once"},
      {"{\"\": 1}", "expected a key that is not empty"},
      {"{\"a\": [1]}", "expected a string, an integer, true or false"},
      {"{\"a\": null}", "expected a string, an integer, true or false"},
      {"{\"a\": tru}", "expected a string, an integer, true or false"},
      {"{\"a\": 0.3}", "expected an integer"},
      {"{\"a\": 1e3}", "expected an integer"},
      {"{\"a\": 01}", "expected an integer"},
      {"{\"a\": -}", "expected an integer"},
      {"{\"a\": 9223372036854775808}", "expected an integer of 64 bits"},
      {"{\"a\": \"x", "expected the end of a string"},
      {"{\"a\": \"x\n\"}", "expected no control character in a string"},
      {"{\"a\": \"\\x\"}", "expected an escape of JSON"},
      {"{\"a\": \"\\u12g4\"}", "expected an escape of JSON"},
      {"{\"a\": \"\\ud800x\"}", "expected two surrogates"},
      {"{\"a\": \"\\udc00\"}", "expected two surrogates"},
      {"{\"a\": \"\\u0000\"}", "expected no NUL"},
      {std::string("{\"a\": \"\0\"}", 9), "expected no control character"},
      {std::string(60000, '{'), "expected '\"'"},
  };
  std::vector<JsonItem> items;
  Error error;
  for (const auto &one : cases) {
    EXPECT_EQ(read(one.text, items, error).code(), EDGECORE_INVALID_EXTERNAL_DATA) << one.text;
    EXPECT_TRUE(says(error, one.sentence)) << one.text << ": " << sentence(error);
  }
  std::string many = "{";
  for (int i = 0; i < 101; ++i) many += "\"" + std::to_string(i) + "\":1,";
  many.back() = '}';
  EXPECT_FALSE(read(many, items, error).ok());
  EXPECT_TRUE(says(error, "at most 100"));
}

TEST(FlatJson, NoDamageDoesHarm) {
  const std::string whole =
      manifest_of(kAbi, "ToyBackend", "/a\\u00e9/\\ud83d\\ude00.so", ", \"options\": {\"a\": -12}");
  Error error;
  const auto try_it = [&](const std::string &text) {  // in a block of its own, whose ends a sanitizer sees
    const std::vector<char> exact(text.begin(), text.end());
    std::vector<JsonItem> items;
    return read_flat_json({exact.data(), exact.size()}, items, error).ok();
  };
  ASSERT_TRUE(try_it(whole));
  for (size_t size = 0; size + 1 < whole.size(); ++size) EXPECT_FALSE(try_it(whole.substr(0, size)));
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(byte);
      (void)try_it(damaged);
    }
  }
}

TEST(Manifest, SaysWhereTheLibraryIs) {
  Manifest manifest;
  Error error;
  const std::string text =
      manifest_of("1.20", "ToyBackend", "../lib/toy.so", R"(, "later": 1, "options": {"a": true})");
  ASSERT_TRUE(read_manifest("/opt/x/toy.json", {text.data(), text.size()}, manifest, error).ok()) << sentence(error);
  EXPECT_EQ(manifest.library, "/opt/x/../lib/toy.so");
  EXPECT_EQ(manifest.abi.major, 1);
  EXPECT_EQ(manifest.abi.minor, 20);
  ASSERT_EQ(manifest.options.size(), 1u);
  EXPECT_EQ(manifest.options[0].key, "a");
}

TEST(Manifest, ABrokenOneIsNamedWithWhatIsWrong) {
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
    EXPECT_TRUE(says(error, "/a/toy.json is broken: " + one.sentence)) << sentence(error);
  }
}

TEST(Manifest, TheFirstFolderWithOneCounts) {
  Folder first, second;
  second.add("toy.json", manifest_of(kAbi, "ToyBackend", "second.so"));
  Manifest manifest;
  Error error;
  const Strings folders = {first.path, second.path};
  EXPECT_TRUE(find_manifest("ToyBackend", folders, manifest, error).ok()) << sentence(error);
  EXPECT_EQ(manifest.library, second.path + "/second.so");
  first.add("other.json", manifest_of(kAbi, "OtherBackend", "other.so"));
  first.add("toy.json.old", manifest_of(kAbi, "ToyBackend", "old.so"));
  first.add(".toy.json", manifest_of(kAbi, "ToyBackend", "hidden.so"));
  first.add("broken.json", "{");
  first.add("newer.json", manifest_of("99.0", "ToyBackend", "newer.so"));
  first.add_pipe("pipe.json");  // which nobody writes to
  EXPECT_TRUE(find_manifest("ToyBackend", folders, manifest, error).ok()) << sentence(error);
  EXPECT_EQ(manifest.library, second.path + "/second.so");
  first.add("toy.json", manifest_of(kAbi, "ToyBackend", "first.so"));
  EXPECT_TRUE(find_manifest("ToyBackend", folders, manifest, error).ok());
  EXPECT_EQ(manifest.library, first.path + "/first.so");
  first.add("again.json", manifest_of(kAbi, "ToyBackend", "again.so"));
  EXPECT_EQ(find_manifest("ToyBackend", folders, manifest, error).code(), EDGECORE_INVALID_ARGUMENT);
  EXPECT_TRUE(says(error, "Both " + first.path + "/again.json and " + first.path + "/toy.json")) << sentence(error);
}

TEST(Manifest, WhyThereIsNone) {
  Folder folder, other;
  Manifest manifest;
  Error error;
  const auto code = [&](const Strings &folders) {
    return find_manifest("ToyBackend", folders, manifest, error).code();
  };
  EXPECT_EQ(code({}), EDGECORE_NOT_FOUND);
  EXPECT_EQ(code({folder.path, other.path}), EDGECORE_NOT_FOUND);
  EXPECT_TRUE(says(error, "'ToyBackend' is in " + folder.path + ", " + other.path + ".")) << sentence(error);
  for (const char *relative : {"", ".", "backends"}) {
    EXPECT_EQ(code({relative}), EDGECORE_INVALID_ARGUMENT);
    EXPECT_TRUE(says(error, "absolute")) << sentence(error);
  }
  EXPECT_EQ(code({"/no/such/folder"}), EDGECORE_ACCESS_FAILED);
  EXPECT_TRUE(says(error, "/no/such/folder cannot be read: No such")) << sentence(error);
  const std::string broken = folder.add("a.json", std::string(70000, ' '));
  EXPECT_EQ(code({folder.path}), EDGECORE_INVALID_EXTERNAL_DATA);
  EXPECT_TRUE(says(error, broken + " is broken: it has more than 65536 bytes")) << sentence(error);
  const std::string newer = folder.add("z.json", manifest_of("99.0", "ToyBackend", "/no/library.so"));
  EXPECT_EQ(code({folder.path}), EDGECORE_NOT_SUPPORTED);  // and no library was opened
  EXPECT_TRUE(says(error, newer) && says(error, "99.0") && says(error, kAbi)) << sentence(error);
}

TEST(Manifest, TheVariableGivesFolders) {
  unsetenv("EDGECORE_BACKEND_PATH");
  EXPECT_EQ(backend_path(), Strings{});
  setenv("EDGECORE_BACKEND_PATH", ":/a::b:/c d:", 1);  // an empty one is not the current directory
  EXPECT_EQ(backend_path(), (Strings{"/a", "b", "/c d"}));
  unsetenv("EDGECORE_BACKEND_PATH");
}

// A program for the toy backend, which adds its option `offset`, 1 by default.
std::vector<float> run_toy(const Strings &folders, std::vector<edgecore_option> options, Error &error) {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({2}), y = pte.add_tensor({2});
  pte.delegate(pte.add_delegate("ToyBackend", {'t', 'o', 'y', '1'}), {x, y});
  pte.inputs = {x};
  pte.outputs = {y};
  const std::vector<uint8_t> bytes = pte.finish();
  Module module;
  std::vector<Tensor> outputs;
  EXPECT_TRUE(module.open({bytes.data(), bytes.size()}, error).ok()) << sentence(error);
  EXPECT_EQ(module.missing_backends().size(), 1u);
  for (const StringView id : module.missing_backends()) {
    if (!module.find_backend(id, folders, {options.data(), options.size()}, error).ok()) return {};
  }
  EXPECT_TRUE(module.missing_backends().empty());
  EXPECT_TRUE(module.load_methods({}, error).ok()) << sentence(error);
  EXPECT_TRUE(module.run("forward", {Tensor::of<float>({2}, {1, 2})}, outputs, error).ok()) << sentence(error);
  const float *out = static_cast<const float *>(outputs[0].data());
  return {out, out + 2};
}

TEST(Manifest, AModuleLoadsWhatItsFileNeeds) {
  Folder folder;
  Error error;
  EXPECT_EQ(run_toy({folder.path}, {}, error), std::vector<float>{});
  const std::string path =
      folder.add("toy.json", manifest_of(kAbi, "ToyBackend", TOY_BACKEND, R"(, "options": {"offset": 5})"));
  EXPECT_EQ(run_toy({folder.path}, {}, error), (std::vector<float>{6, 7})) << sentence(error);
  edgecore_option offset = {};
  offset.name = {"offset", 6};
  offset.type = EDGECORE_OPTION_FLOAT;
  offset.value.d = 10;
  EXPECT_EQ(run_toy({folder.path}, {offset}, error), (std::vector<float>{11, 12})) << sentence(error);
  folder.add("toy.json", manifest_of(kAbi, "ToyBackend", TOY_BACKEND, R"(, "options": {"ofset": 5})"));
  EXPECT_EQ(run_toy({folder.path}, {}, error), std::vector<float>{});
  EXPECT_TRUE(says(error, "no option 'ofset'") && says(error, "The manifest is " + path)) << sentence(error);
  folder.add("toy.json", manifest_of(kAbi, "ToyBackend", "nothing.so"));
  EXPECT_EQ(run_toy({folder.path}, {}, error), std::vector<float>{});
  EXPECT_TRUE(says(error, folder.path + "/nothing.so cannot be loaded") && says(error, path)) << sentence(error);
}

}  // namespace
}  // namespace edgecore
