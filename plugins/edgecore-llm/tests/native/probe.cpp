// probe FILE THREADS: runs commands from standard input, one a line, on sessions of a model, and prints a line for each
// result. The tests compare them with the results of Python's sessions.
//
//   new N | use N          make session N, choose it for what follows
//   append TOKEN...        print the bits of the logits after the last token as a hash, and the largest
//   logits TOKEN...        print the hash of all logits
//   generate COUNT IGNORE_EOS CANCEL_AFTER TEMPERATURE TOP_K SEED TOKEN...    print the tokens
//   roll KEEP COUNT ...    the same, with shifts of the context
//   shift KEEP COUNT | rewind COUNT | warm | tokens | save PATH | restore PATH | threads COUNT
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <thread>

#include "edgecore/llm/session.h"

namespace {

using namespace edgecore;
using llm::Session;

uint64_t hash_of(Span<const float> values) {
  uint64_t hash = 1469598103934665603u;
  for (const float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 1099511628211u;
  }
  return hash;
}

std::vector<int32_t> rest(std::istringstream &line) {
  return {std::istream_iterator<int32_t>(line), std::istream_iterator<int32_t>()};
}

Span<const int32_t> view(const std::vector<int32_t> &tokens) { return {tokens.data(), tokens.size()}; }

void print(const std::vector<int32_t> &tokens) {
  for (const int32_t token : tokens) std::cout << token << ' ';
  std::cout << std::endl;
}

Status generate(Session &session, std::istringstream &line, bool shifts, Error &error) {
  llm::GenerateOptions options;
  size_t cancel_after = 0;
  options.shifts = shifts;
  if (shifts) line >> options.keep;
  line >> options.max_new_tokens >> options.ignore_eos >> cancel_after;
  line >> options.sampling.temperature >> options.sampling.top_k >> options.sampling.seed;
  const std::vector<int32_t> prompt = rest(line);
  std::vector<int32_t> found;
  EDGECORE_TRY(session.generate(
      view(prompt), options,
      [&](int32_t token) {
        found.push_back(token);
        if (found.size() == cancel_after) std::thread([&] { session.cancel(); }).join();
        return true;
      },
      error));
  print(found);
  return {};
}

// Generates in several threads, each with a session of its own, whose prompt is a token: 3, 4, and so on.
Status generate_in_threads(llm::Model &model, size_t count, Error &error) {
  std::vector<std::vector<int32_t>> found(count);
  std::vector<Session> sessions(count);
  std::vector<Error> errors(count);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) EDGECORE_TRY(model.new_session(sessions[i], error));
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      const int32_t prompt[] = {static_cast<int32_t>(3 + i)};
      llm::GenerateOptions options;
      options.max_new_tokens = 30;
      options.ignore_eos = true;
      const auto collect = [&](int32_t token) {
        found[i].push_back(token);
        return true;
      };
      if (!sessions[i].generate(prompt, options, collect, errors[i]).ok()) found[i].clear();
    });
  }
  for (std::thread &thread : threads) thread.join();
  for (const std::vector<int32_t> &tokens : found) print(tokens);
  return {};
}

Status run(Session &session, const std::string &command, std::istringstream &line, Error &error) {
  if (command == "append") {
    const std::vector<int32_t> tokens = rest(line);
    const Result<Span<const float>> logits = session.append(view(tokens), error);
    EDGECORE_TRY(logits.status());
    size_t best = 0;
    for (size_t i = 0; i < (*logits).size(); ++i) best = (*logits)[i] > (*logits)[best] ? i : best;
    std::cout << hash_of(*logits) << ' ' << best << std::endl;
    return {};
  }
  if (command == "logits") {
    std::vector<float> logits;
    EDGECORE_TRY(session.logits(view(rest(line)), logits, error));
    std::cout << hash_of({logits.data(), logits.size()}) << ' ' << logits.size() << std::endl;
    return {};
  }
  if (command == "generate" || command == "roll") return generate(session, line, command == "roll", error);
  if (command == "tokens") {
    print({session.tokens().begin(), session.tokens().end()});
    return {};
  }
  if (command == "save" || command == "restore") {
    std::string path;
    line >> path;
    std::vector<uint8_t> saved;
    if (command == "save") {
      EDGECORE_TRY(session.save(saved, error));
      std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(saved.data()), saved.size());
    } else {
      std::ifstream file(path, std::ios::binary);
      saved.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
      EDGECORE_TRY(session.restore({saved.data(), saved.size()}, error));
    }
  } else if (command == "rewind") {
    size_t count = 0;
    line >> count;
    EDGECORE_TRY(session.rewind(count, error));
  } else if (command == "shift") {
    size_t keep = 0, count = 0;
    line >> keep >> count;
    EDGECORE_TRY(session.shift(keep, count, error));
  } else if (command == "warm") {
    EDGECORE_TRY(session.warm_up(error));
  }
  std::cout << "ok" << std::endl;
  return {};
}

}  // namespace

int main(int, char **argv) {
  Error error;
  llm::ModelOptions options;
  options.threads = static_cast<uint32_t>(std::atoi(argv[2]));
  llm::Model model;
  if (!model.open(argv[1], options, error).ok()) {
    std::cout << "error " << std::string(error.text, error.size) << std::endl;
    return 1;
  }
  std::map<int, Session> sessions;
  Session *session = nullptr;
  for (std::string text; std::getline(std::cin, text);) {
    std::istringstream line(text);
    std::string command;
    int number = 0;
    line >> command;
    Status status;
    if (command == "new" || command == "use") {
      line >> number;
      session = &sessions[number];
      if (command == "new") status = model.new_session(*session, error);
      if (status.ok()) std::cout << "ok" << std::endl;
    } else if (command == "threads") {
      line >> number;
      status = generate_in_threads(model, static_cast<size_t>(number), error);
    } else {
      status = run(*session, command, line, error);
    }
    if (!status.ok()) std::cout << "error " << std::string(error.text, error.size) << std::endl;
  }
  std::cout << session->statistics().line() << std::endl;
  return 0;
}
