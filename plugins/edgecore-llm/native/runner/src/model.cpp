#include "edgecore/llm/model.h"

#include <chrono>

#include "edgecore/kernel.h"
#include "edgecore/llm/session.h"
#include "edgecore/llm/tokenizer.h"

extern "C" const edgecore_kernel_library *edgecore_kernels_v0_llm(void);

namespace edgecore::llm {
namespace {

constexpr const char *kMetadataMethod = "get_llm_metadata";  // a constant method that returns the metadata as JSON

// Adds the kernels of edgecore-llm and the backends that the file needs, and loads all methods.
Status load(Module &module, const ModelOptions &options, Error &error) {
  EDGECORE_TRY(module.add_kernels(edgecore_kernels_v0_llm(), error));
  for (const StringView id : module.missing_backends()) {
    EDGECORE_TRY(module.find_backend(id, backend_path(), {}, error));
  }
  MethodOptions method_options;
  method_options.threads = options.threads;
  return module.load_methods(method_options, error);
}

}  // namespace

Status Model::open(const char *path, const ModelOptions &options, Error &error) {
  const auto begin = std::chrono::steady_clock::now();
  module_ = std::make_shared<Module>();
  EDGECORE_TRY(module_->open(path, error));
  const Result<size_t> facts = module_->program().find_method(kMetadataMethod, error);
  if (!facts.ok() || !module_->program().find_method("forward", error).ok()) {
    return fail(
        error, EDGECORE_INVALID_PROGRAM, path,
        " holds no language model that edgecore::llm runs; make it with: edgecore llm export, without --backend.");
  }
  EDGECORE_TRY(load(*module_, options, error));
  Method &method = module_->method(*facts);
  if (method.info().output_count() != 1 || method.info().output(0).tag != EDGECORE_TAG_STRING) {
    return fail(error, EDGECORE_INVALID_PROGRAM, "The facts about the model in ", path, " are damaged.");
  }
  EDGECORE_TRY(method.execute(error));
  const edgecore_list &text = *method.output(0).as.list;
  const auto metadata = std::make_shared<Metadata>();
  EDGECORE_TRY(read_metadata(StringView(text.items.chars, static_cast<size_t>(text.count)), *metadata, error));
  metadata_ = metadata;
  load_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {};
}

Status Model::new_session(Session &session, Error &error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_used_) {
    is_used_ = true;
    return session.start(metadata_, module_, load_seconds_, error);
  }
  const auto module = std::make_shared<Module>();
  EDGECORE_TRY(module_->new_session(*module, error));
  return session.start(metadata_, module, load_seconds_, error);
}

Status Model::check_fit(const Tokenizer &tokenizer, Error &error) const {
  if (tokenizer.vocabulary() <= metadata_->vocabulary) return {};
  return fail(error, EDGECORE_INVALID_ARGUMENT, "The tokenizer has ", tokenizer.vocabulary(),
              " tokens and the model only ", metadata_->vocabulary, ": it belongs to another model.");
}

}  // namespace edgecore::llm
