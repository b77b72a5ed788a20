#include <cstdint>
#include <utility>

#include "core/segments.h"
#include "edgecore/bundled.h"
#include "host/backends.h"
#include "host/module_state.h"

namespace edgecore {

Status LoadedFile::load_program(Error &error) {
  ProgramConfig config;
  config.allocator = &program_memory;
  config.limits = limits;
  config.data = {data_files.data(), data_files.size()};
  EDGECORE_TRY(unwrap_bundle(error));
  const Result<const Program *> loaded = Program::load(*file.loader, config, error);
  EDGECORE_TRY(loaded.status());
  program = *loaded;
  return {};
}

Status LoadedFile::unwrap_bundle(Error &error) {
  constexpr uint64_t kIdentifierEnd = 8;
  const uint64_t size = file.loader->size();
  if (size < kIdentifierEnd || size > SIZE_MAX) return {};
  const Result<Bytes> start = load_bytes(*file.loader, 0, kIdentifierEnd, LoadUse::kTables, error);
  EDGECORE_TRY(start.status());
  const bool bundled = is_bundled(*start);
  file.loader->release(*start);
  if (!bundled) return {};
  const Result<Bytes> whole = load_bytes(*file.loader, 0, size, LoadUse::kTables, error);
  EDGECORE_TRY(whole.status());
  Source bundle;
  const Status copied = bundle.copy(*whole, error);
  file.loader->release(*whole);
  EDGECORE_TRY(copied);
  file = std::move(bundle);
  const Result<Bytes> copy = file.loader->load(0, static_cast<size_t>(size), LoadUse::kTables, error);
  EDGECORE_TRY(copy.status());
  const Result<Bytes> found = bundled_program(*copy, limits, error);
  EDGECORE_TRY(found.status());
  inner = BufferDataLoader(*found, SystemDataLoader::kTail);
  file.loader = &inner;
  return {};
}

Status LoadedFile::load_data(Error &error) {
  DataPart &part = data.back();
  const StringView name(part.name.data(), part.name.size());
  const Result<const DataFile *> loaded = DataFile::load(*part.source.loader, name, &part.memory, limits, error);
  EDGECORE_TRY(loaded.status());
  data_files.push_back(*loaded);
  return {};
}

Status LoadedFile::open_backend(const edgecore_backend *table, Span<const edgecore_option> load_options, Error &error) {
  const std::lock_guard<std::recursive_mutex> lock(loading);
  // copy the options, because check_options may convert values in place
  std::vector<edgecore_option> options(load_options.begin(), load_options.end());
  EDGECORE_TRY(check_options(table, EDGECORE_OPTION_AT_LOAD, {options.data(), options.size()}, error));
  const Result<edgecore_driver *> driver = driver_of(table, error);
  EDGECORE_TRY(driver.status());
  auto backend = std::make_unique<OpenBackend>();
  backend->loaded.table = table;
  backend->loaded.driver = *driver;
  backend->scope.program = program;
  backend->scope.context = &backend->context;
  const edgecore_program_info info = {header_of<edgecore_program_info>(),
                                      &backend->scope,
                                      {options.data(), options.size(), sizeof(edgecore_option), 0}};
  error.clear();
  EDGECORE_TRY(Status(table->program_open(*driver, &info, &backend->loaded.program, &error)));
  backends.push_back(std::move(backend));
  return {};
}

void LoadedFile::drop_pages() const {
  if (backends.empty()) return;
  file.drop_pages();
  for (const DataPart &part : data) part.source.drop_pages();
}

Result<const LoadedBackend *> LoadedFile::find_backend(StringView backend_id, Error &error) const {
  for (const auto &backend : backends) {
    if (StringView(backend->loaded.table->backend_id) == backend_id) return &backend->loaded;
  }
  return fail(error, EDGECORE_NOT_FOUND, "The backend '", backend_id, "' was not added to this program.");
}

}  // namespace edgecore
