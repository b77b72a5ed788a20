#include "calls.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "values.h"

namespace edgecore::tools {
namespace {

struct Session {
  Module *module;
  std::unique_ptr<Module> owned;  // the session's module; NULL for the first session
  bool has_outputs = false;
};

std::vector<std::string> words_of(const std::string &line) {
  std::vector<std::string> words;
  size_t end = 0;
  for (size_t begin = 0; (begin = line.find_first_not_of(" \r", end)) != std::string::npos;) {
    end = line.find_first_of(" \r", begin);
    words.push_back(line.substr(begin, end - begin));
    if (end == std::string::npos) break;
  }
  return words;
}

Status write_file(const std::string &path, const std::vector<uint8_t> &bytes, Error &error) {
  std::FILE *file = std::fopen(path.c_str(), "wb");
  const bool written = file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if ((file == nullptr || std::fclose(file) == 0) && written) return {};
  return fail(error, EDGECORE_ACCESS_FAILED, "Cannot write ", path.c_str(), ".");
}

class Calls {
 public:
  Calls(Module &first, const char *output_dir) : output_dir_(output_dir) { sessions_.push_back({&first, nullptr}); }

  Status make(const std::vector<std::string> &words, size_t number, Error &error) {
    const std::string &verb = words[0];
    if (verb == "call" && words.size() >= 2) return run(words, number, error);
    if (verb == "reset" && words.size() == 1) return session().module->reset(error);
    if (words.size() == 2) {
      if (verb == "session") return choose(words[1], error);
      if (verb == "export") return export_state(words[1], error);
      if (verb == "import") return import_state(words[1], error);
    }
    return fail(error, EDGECORE_INVALID_ARGUMENT, "There is no call '", verb.c_str(), "' with ", words.size() - 1,
                " arguments.");
  }

 private:
  Session &session() { return sessions_[current_]; }

  Status run(const std::vector<std::string> &words, size_t number, Error &error) {
    Module &module = *session().module;
    const Result<size_t> index = module.program().find_method(words[1].c_str(), error);
    EDGECORE_TRY(index.status());
    if (!session().has_outputs) {
      for (size_t i = 0; i < module.method_count(); ++i) EDGECORE_TRY(module.allocate_outputs(i, error));
      session().has_outputs = true;
    }
    Method &method = module.method(*index);
    std::vector<const char *> files;
    for (size_t i = 2; i < words.size(); ++i) files.push_back(words[i].c_str());
    std::vector<Array> arrays;
    EDGECORE_TRY(set_inputs(method, files, true, arrays, error));
    EDGECORE_TRY(method.execute(error));
    const std::string prefix =
        std::string(output_dir_ != nullptr ? output_dir_ : "") + "/call_" + std::to_string(number);
    for (size_t i = 0; output_dir_ != nullptr && i < method.info().output_count(); ++i) {
      EDGECORE_TRY(write_output(method, i, prefix + "_output_", error));
    }
    return {};
  }

  // Selects the session with this number. The next unused number starts a new session.
  Status choose(const std::string &text, Error &error) {
    char *end = nullptr;
    const size_t number = std::strtoul(text.c_str(), &end, 10);
    if (*end != '\0' || number > sessions_.size()) {
      return fail(error, EDGECORE_INVALID_ARGUMENT, "Session '", text.c_str(), "' is none of the ", sessions_.size(),
                  " sessions and not the next one.");
    }
    if (number == sessions_.size()) {
      auto made = std::make_unique<Module>();
      EDGECORE_TRY(sessions_[0].module->new_session(*made, error));
      Module *module = made.get();
      sessions_.push_back({module, std::move(made)});
    }
    current_ = number;
    return {};
  }

  Status export_state(const std::string &path, Error &error) {
    std::vector<uint8_t> state;
    EDGECORE_TRY(session().module->export_state(state, error));
    return write_file(path, state, error);
  }

  Status import_state(const std::string &path, Error &error) {
    std::vector<uint8_t> state;
    EDGECORE_TRY(read_file(path.c_str(), state, error));
    return session().module->import_state({state.data(), state.size()}, error);
  }

  const char *output_dir_;
  std::vector<Session> sessions_;
  size_t current_ = 0;
};

}  // namespace

Status make_calls(Module &first, const char *path, const char *output_dir, Error &error) {
  std::vector<uint8_t> bytes;
  EDGECORE_TRY(read_file(path, bytes, error));
  const std::string text(bytes.begin(), bytes.end());
  Calls calls(first, output_dir);
  size_t number = 0, failures = 0;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const std::vector<std::string> words = words_of(text.substr(begin, end - begin));
    if (words.empty()) continue;
    Error failure;
    if (calls.make(words, number, failure).ok()) {
      std::printf("call %zu: ok\n", number);
    } else {
      std::printf("call %zu: failed: %.*s\n", number, static_cast<int>(failure.size), failure.text);
      ++failures;
    }
    std::fflush(stdout);  // flush, so that the output names the call even if it ends the process
    ++number;
  }
  if (failures == 0) return {};
  return fail(error, EDGECORE_INVALID_STATE, failures, " of ", number, " calls failed.");
}

}  // namespace edgecore::tools
