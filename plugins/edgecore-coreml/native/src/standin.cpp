// The stand-in for Core ML on Linux, for tests: a child process that runs `python -m edgecore_coreml_standin` computes
// the ML programs. The child process exists only if the load option `standin` is set.
//
// Messages in both directions are lists of items: a count of 32 bits, then for each item a size of 64 bits and its
// bytes. A request begins with a command, a reply with "ok" or, before an error message, "error".
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <sstream>
#include <thread>

#include "model.h"

extern char **environ;

namespace edgecore::coreml {
namespace {

using edgecore::backend::fail;
using Items = std::vector<std::string>;

constexpr uint64_t kMaxItem = uint64_t{1} << 40, kMaxItems = 1 << 16;

// The child process that computes Core ML models with PyTorch. Thread-safe.
class Child {
 public:
  explicit Child(const std::string &python) : owner_(getpid()) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
      fail(EDGECORE_INTERNAL, "the stand-in for Core ML: %s", std::strerror(errno));
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, sockets[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, sockets[1], STDOUT_FILENO);
    std::string module = "-m", name = "edgecore_coreml_standin", program = python;
    char *arguments[] = {program.data(), module.data(), name.data(), nullptr};
    const int error = posix_spawn(&process_, python.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(sockets[1]);
    socket_ = sockets[0];
    if (error == 0) return;
    close(socket_);
    fail(EDGECORE_NOT_FOUND, "the load option standin is no Python interpreter: %s: %s", python.c_str(),
         std::strerror(error));
  }

  ~Child() {
    close(socket_);
    if (owner_ == getpid()) waitpid(process_, nullptr, 0);
  }

  Child(const Child &) = delete;
  Child &operator=(const Child &) = delete;

  // Sends a request to the child process. Returns the items of the reply after "ok". Throws a Failure with the message
  // of the child if the reply begins with "error".
  Items call(const Items &request) {
    if (owner_ != getpid()) fail(EDGECORE_INVALID_STATE, "the stand-in for Core ML belongs to the parent process");
    const std::lock_guard<std::mutex> lock(mutex_);
    send_number(request.size(), 4);
    for (const std::string &item : request) {
      send_number(item.size(), 8);
      send_all(item.data(), item.size());
    }
    const uint64_t count = receive_number(4);
    if (count > kMaxItems) ended();
    Items reply(count);
    for (std::string &item : reply) {
      const uint64_t size = receive_number(8);
      if (size > kMaxItem) ended();
      item.resize(size);
      receive_all(item.data(), size);
    }
    if (reply.empty()) ended();
    if (reply[0] != "ok") {
      fail(EDGECORE_INVALID_ARGUMENT, "the stand-in for Core ML: %s",
           reply.size() > 1 ? reply[1].c_str() : "no message");
    }
    reply.erase(reply.begin());
    return reply;
  }

 private:
  [[noreturn]] static void ended() {
    fail(EDGECORE_INTERNAL,
         "the stand-in for Core ML has ended: if its Python lacks it, pip install \"edgecore-coreml[standin]\"");
  }

  void send_all(const void *data, size_t size) {
    const auto *at = static_cast<const char *>(data);
    while (size != 0) {
      const ssize_t sent = send(socket_, at, size, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) ended();
      at += sent;
      size -= static_cast<size_t>(sent);
    }
  }

  void receive_all(void *data, size_t size) {
    auto *at = static_cast<char *>(data);
    while (size != 0) {
      const ssize_t received = recv(socket_, at, size, 0);
      if (received < 0 && errno == EINTR) continue;
      if (received <= 0) ended();
      at += received;
      size -= static_cast<size_t>(received);
    }
  }

  void send_number(uint64_t value, size_t bytes) { send_all(&value, bytes); }  // little-endian, as hosts are
  uint64_t receive_number(size_t bytes) {
    uint64_t value = 0;
    receive_all(&value, bytes);
    return value;
  }

  const pid_t owner_;
  pid_t process_ = 0;
  int socket_ = -1;
  std::mutex mutex_;
};

constexpr const char *kNames[] = {"float16", "float32", "int32"};

// Reads the description of an input or output: "DTYPE fixed|free LOW HIGH LOW HIGH...", with the limits of each dim. If
// only some shapes are allowed, "| SIZE SIZE..." follows for each of them.
Feature read_feature(const std::string &name, const std::string &text) {
  std::istringstream words(text);
  std::string dtype, kind, word;
  words >> dtype >> kind;
  Feature feature;
  feature.name = name;
  feature.is_fixed = kind == "fixed";
  feature.element = dtype == kNames[0] ? Element::kFloat16 : dtype == kNames[1] ? Element::kFloat32 : Element::kInt32;
  while (words >> word) {
    if (word == "|") {
      feature.shapes.emplace_back();
    } else if (!feature.shapes.empty()) {
      feature.shapes.back().push_back(std::stoll(word));
    } else {
      const int64_t low = std::stoll(word);
      words >> word;
      feature.sizes.push_back({low, std::stoll(word)});
    }
  }
  return feature;
}

uint64_t bytes_of(const Array &array) {
  uint64_t bytes = element_bytes(array.element);
  for (const int64_t size : array.shape) bytes *= static_cast<uint64_t>(size);
  return bytes;
}

std::string describe(const Array &array) {
  std::string text = kNames[static_cast<int>(array.element)];
  for (const int64_t size : array.shape) text += " " + std::to_string(size);
  return text;
}

std::string content(const Array &array) {
  return {static_cast<const char *>(array.data), static_cast<size_t>(bytes_of(array))};
}

class StandInSession : public Session {
 public:
  StandInSession(std::shared_ptr<Child> child, const std::string &model)
      : child_(std::move(child)), id_(child_->call({"session", model}).at(0)) {}
  ~StandInSession() override {
    if (thread_.joinable()) thread_.join();
    forget(*child_, id_);
  }

  void predict(const std::vector<Array> &inputs, std::vector<Array> &outputs) override {
    Items request = {"predict", id_};
    for (const Array &input : inputs) {
      request.push_back(describe(input));
      request.push_back(content(input));
    }
    const Items reply = child_->call(request);
    for (size_t i = 0; i < outputs.size(); ++i) {
      Array &output = outputs[i];
      std::istringstream words(reply.at(2 * i));
      std::string dtype;
      words >> dtype;
      std::vector<int64_t> shape;
      for (int64_t size = 0; words >> size;) shape.push_back(size);
      const std::string &bytes = reply.at(2 * i + 1);
      if (output.data != nullptr) {
        if (shape != output.shape || bytes.size() != bytes_of(output)) {
          fail(EDGECORE_INVALID_PROGRAM, "output %zu has another shape than the model says", i);
        }
        std::memcpy(output.data, bytes.data(), bytes.size());
      }
      output.shape = shape;
    }
  }

  void start(const std::vector<Array> &inputs, std::vector<Array> &outputs, const Done &done) override {
    if (thread_.joinable()) thread_.join();  // wait for the thread of the previous prediction, which has called `done`
    thread_ = std::thread([this, &inputs, &outputs, done] {
      std::exception_ptr failure;
      try {
        predict(inputs, outputs);
      } catch (...) {
        failure = std::current_exception();
      }
      done(failure);
    });
  }

  void read_state(const std::string &name, Array out) override {
    const std::string bytes = child_->call({"read_state", id_, name}).at(0);
    if (bytes.size() != bytes_of(out)) fail(EDGECORE_INVALID_PROGRAM, "the state '%s' has another size", name.c_str());
    std::memcpy(out.data, bytes.data(), bytes.size());
  }
  void write_state(const std::string &name, Array in) override {
    child_->call({"write_state", id_, name, content(in)});
  }

  static void forget(Child &child, const std::string &id) {
    try {
      child.call({"forget", id});
    } catch (...) {  // ignore the error: the child has ended, or this process is only a fork of its parent
    }
  }

 private:
  const std::shared_ptr<Child> child_;
  const std::string id_;
  std::thread thread_;  // the thread of a started prediction, which waits for the child process
};

class StandInModel : public Model {
 public:
  StandInModel(std::shared_ptr<Child> child, const Request &request) : child_(std::move(child)) {
    Items items = {"load", request.folder, request.function, std::to_string(request.inputs.size())};
    items.insert(items.end(), request.inputs.begin(), request.inputs.end());
    items.insert(items.end(), request.outputs.begin(), request.outputs.end());
    const Items reply = child_->call(items);
    id_ = reply.at(0);
    size_t at = 1;
    for (const std::string &name : request.inputs) inputs.push_back(read_feature(name, reply.at(at++)));
    for (const std::string &name : request.outputs) outputs.push_back(read_feature(name, reply.at(at++)));
  }
  ~StandInModel() override { StandInSession::forget(*child_, id_); }

  std::unique_ptr<Session> make_session() override { return std::make_unique<StandInSession>(child_, id_); }

 private:
  const std::shared_ptr<Child> child_;
  std::string id_;
};

class StandInEngine : public Engine {
 public:
  explicit StandInEngine(const std::string &python) : child_(std::make_shared<Child>(python)) {}

  void compile(const std::string &) override {}  // the stand-in reads the package without compiling it
  std::unique_ptr<Model> load(const Request &request) override {
    return std::make_unique<StandInModel>(child_, request);
  }

 private:
  const std::shared_ptr<Child> child_;
};

}  // namespace

std::shared_ptr<Engine> make_engine(const std::string &standin) {
  if (standin.empty()) {
    fail(EDGECORE_NOT_SUPPORTED,
         "the file has a model for Apple's Core ML, which needs macOS, iOS, iPadOS or tvOS: run it on a Mac, or in an "
         "app that links a delegate for CoreMLBackend");
  }
  return std::make_shared<StandInEngine>(standin);
}

}  // namespace edgecore::coreml
