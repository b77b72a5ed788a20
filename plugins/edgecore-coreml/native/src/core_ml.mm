// The engine that uses Apple's Core ML, and the only file that uses Apple's frameworks. It has not run on a Mac yet: on
// Linux a test checks its syntax and types against the declarations in tests/apple.
#import <CoreML/CoreML.h>
#import <Foundation/Foundation.h>

#include "array.h"
#include "model.h"
#include "prediction.h"

namespace edgecore::coreml {
namespace {

using edgecore::backend::fail;

constexpr const char *kPackage = "/model.mlpackage", *kCompiled = "/model.mlmodelc";

NSString *to_string(const std::string &text) { return [NSString stringWithUTF8String:text.c_str()]; }

NSURL *to_url(const std::string &path) { return [NSURL fileURLWithPath:to_string(path)]; }

[[noreturn]] void fail_with(NSError *error, const char *task) {
  NSString *reason = error != nil ? error.localizedDescription : @"no reason given";
  fail(EDGECORE_DELEGATE_INVALID_HANDLE, "Core ML cannot %s: %s", task, reason.UTF8String);
}

MLComputeUnits to_compute_units(const std::string &name) {
  if (name == "cpu_only") return MLComputeUnitsCPUOnly;
  if (name == "cpu_and_gpu") return MLComputeUnitsCPUAndGPU;
  if (name == "cpu_and_ne") return MLComputeUnitsCPUAndNeuralEngine;
  return MLComputeUnitsAll;
}

Element to_element(MLMultiArrayDataType type, const std::string &name) {
  switch (type) {
    case MLMultiArrayDataTypeFloat16:
      return Element::kFloat16;
    case MLMultiArrayDataTypeFloat32:
      return Element::kFloat32;
    case MLMultiArrayDataTypeInt32:
      return Element::kInt32;
    default:
      fail(EDGECORE_NOT_SUPPORTED, "the model's '%s' has a dtype that edgecore-coreml does not have", name.c_str());
  }
}

MLMultiArrayDataType to_type(Element element) {
  switch (element) {
    case Element::kFloat16:
      return MLMultiArrayDataTypeFloat16;
    case Element::kFloat32:
      return MLMultiArrayDataTypeFloat32;
    default:
      return MLMultiArrayDataTypeInt32;
  }
}

NSArray<NSNumber *> *to_numbers(const std::vector<int64_t> &values) {
  NSMutableArray<NSNumber *> *numbers = [NSMutableArray arrayWithCapacity:values.size()];
  for (const int64_t value : values) [numbers addObject:[NSNumber numberWithLongLong:value]];
  return numbers;
}

std::vector<int64_t> to_sizes(NSArray<NSNumber *> *numbers) {
  std::vector<int64_t> sizes;
  for (NSUInteger i = 0; i < numbers.count; ++i) sizes.push_back(numbers[i].longLongValue);
  return sizes;
}

Feature to_feature(MLFeatureDescription *description, const std::string &name) {
  MLMultiArrayConstraint *constraint = description.multiArrayConstraint;
  if (constraint == nil) fail(EDGECORE_INVALID_PROGRAM, "the model has no tensor '%s'", name.c_str());
  Feature feature;
  feature.name = name;
  feature.element = to_element(constraint.dataType, name);
  for (const int64_t size : to_sizes(constraint.shape)) feature.sizes.push_back({size, size});
  feature.is_fixed = !feature.sizes.empty();
  MLMultiArrayShapeConstraint *shapes = constraint.shapeConstraint;
  if (shapes.type == MLMultiArrayShapeConstraintTypeRange) {
    NSArray<NSValue *> *ranges = shapes.sizeRangeForDimension;
    for (NSUInteger d = 0; d < ranges.count && d < feature.sizes.size(); ++d) {
      const NSRange range = ranges[d].rangeValue;  // `length` is the number of sizes from the minimum to the maximum
      const auto low = static_cast<int64_t>(range.location), count = static_cast<int64_t>(range.length);
      feature.sizes[d] = {low, count > INT32_MAX - low ? INT32_MAX : low + std::max<int64_t>(count, 1) - 1};
      feature.is_fixed = feature.is_fixed && feature.sizes[d].low == feature.sizes[d].high;
    }
  } else if (shapes.type == MLMultiArrayShapeConstraintTypeEnumerated && shapes.enumeratedShapes.count > 1) {
    feature.is_fixed = false;
    for (NSUInteger i = 0; i < shapes.enumeratedShapes.count; ++i) {
      feature.shapes.push_back(to_sizes(shapes.enumeratedShapes[i]));
      for (size_t d = 0; d < feature.sizes.size(); ++d) {
        Range &range = feature.sizes[d];
        range.low = std::min(range.low, feature.shapes.back()[d]);
        range.high = std::max(range.high, feature.shapes.back()[d]);
      }
    }
  }
  return feature;
}

// Returns an array over the caller's memory, which must outlive the array.
MLMultiArray *over_memory(const Array &array) {
  NSError *error = nil;
  MLMultiArray *made = [[MLMultiArray alloc] initWithDataPointer:array.data
                                                           shape:to_numbers(array.shape)
                                                        dataType:to_type(array.element)
                                                         strides:to_numbers(row_major_strides(array.shape))
                                                     deallocator:nil
                                                           error:&error];
  if (made == nil) fail_with(error, "use a tensor's memory");
  return made;
}

// Copies the elements of Core ML's array to `out`; if `to_array`, copies from `out` to Core ML's array. Rows of Core
// ML's arrays may be padded.
void copy_elements(MLMultiArray *array, const Array &out, bool to_array) {
  const uint64_t bytes = element_bytes(out.element);
  if (to_sizes(array.shape) != out.shape || array.dataType != to_type(out.element)) {
    fail(EDGECORE_INVALID_PROGRAM, "Core ML has an array of another shape or dtype than its model says");
  }
  if (to_array) {
    [array getMutableBytesWithHandler:^(void *data, NSInteger, NSArray<NSNumber *> *strides) {
      copy_strided(out.shape, bytes, out.data, row_major_strides(out.shape), data, to_sizes(strides));
    }];
    return;
  }
  const std::vector<int64_t> strides = to_sizes(array.strides);
  [array getBytesWithHandler:^(const void *data, NSInteger) {
    copy_strided(out.shape, bytes, data, strides, out.data, row_major_strides(out.shape));
  }];
}

class CoreMlSession : public Session {
 public:
  CoreMlSession(MLModel *model, const std::vector<Feature> &inputs, const std::vector<Feature> &outputs)
      : model_(model), inputs_(inputs), outputs_(outputs) {
    if (@available(macOS 15.0, iOS 18.0, tvOS 18.0, *)) {
      if (model.modelDescription.stateDescriptionsByName.count != 0) state_ = [model newState];
    }
  }

  void predict(const std::vector<Array> &inputs, std::vector<Array> &outputs) override {
    @autoreleasepool {
      MLDictionaryFeatureProvider *features = to_features(inputs);
      NSDictionary<NSString *, id> *backings = to_backings(outputs);
      NSError *error = nil;
      id<MLFeatureProvider> results = predict_once(state_ != nil || backings.count == 0, [&](bool in_memory) {
        NSError *reason = nil;
        id<MLFeatureProvider> found = run(features, in_memory ? backings : @{}, &reason);
        error = reason;
        return found;
      });
      take(results, error, backings, outputs);
    }
  }

  // Core ML calls the block on one of its threads. If the model has a state, `start` returns after the prediction.
  void start(const std::vector<Array> &inputs, std::vector<Array> &outputs, const Done &done) override {
    if (@available(macOS 14.0, iOS 17.0, tvOS 17.0, *)) {
      if (state_ == nil) {
        @autoreleasepool {
          MLDictionaryFeatureProvider *features = to_features(inputs);
          NSDictionary<NSString *, id> *backings = to_backings(outputs);
          std::vector<Array> *filled = &outputs;
          const Done kept = done;
          [model_ predictionFromFeatures:features
                                 options:to_options(backings)
                       completionHandler:^(id<MLFeatureProvider> results, NSError *error) {
                         std::exception_ptr failure;
                         @autoreleasepool {
                           try {
                             NSError *reason = error;
                             if (results == nil && backings.count != 0) results = run(features, @{}, &reason);
                             take(results, reason, backings, *filled);
                           } catch (...) {
                             failure = std::current_exception();
                           }
                         }
                         kept(failure);
                       }];
        }
        return;
      }
    }
    Session::start(inputs, outputs, done);
  }

  void read_state(const std::string &name, Array out) override { copy_state(name, out, false); }
  void write_state(const std::string &name, Array in) override { copy_state(name, in, true); }

 private:
  MLDictionaryFeatureProvider *to_features(const std::vector<Array> &inputs) {
    NSMutableDictionary<NSString *, id> *values = [NSMutableDictionary dictionary];
    for (size_t i = 0; i < inputs.size(); ++i) values[to_string(inputs_[i].name)] = over_memory(inputs[i]);
    NSError *error = nil;
    MLDictionaryFeatureProvider *features = [[MLDictionaryFeatureProvider alloc] initWithDictionary:values
                                                                                              error:&error];
    if (features == nil) fail_with(error, "take the inputs");
    return features;
  }

  // Returns arrays over the memory of the outputs. Core ML writes into these arrays if it can, else into arrays that it
  // allocates itself.
  NSDictionary<NSString *, id> *to_backings(const std::vector<Array> &outputs) {
    NSMutableDictionary<NSString *, id> *backings = [NSMutableDictionary dictionary];
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].data != nullptr) backings[to_string(outputs_[i].name)] = over_memory(outputs[i]);
    }
    return backings;
  }

  static MLPredictionOptions *to_options(NSDictionary<NSString *, id> *backings) {
    MLPredictionOptions *options = [[MLPredictionOptions alloc] init];
    options.outputBackings = backings;
    return options;
  }

  void take(id<MLFeatureProvider> results, NSError *error, NSDictionary<NSString *, id> *backings,
            std::vector<Array> &outputs) {
    if (results == nil) fail_with(error, "run the model");
    for (size_t i = 0; i < outputs.size(); ++i) {
      NSString *name = to_string(outputs_[i].name);
      MLMultiArray *result = [results featureValueForName:name].multiArrayValue;
      if (result == nil) fail(EDGECORE_INVALID_PROGRAM, "Core ML gives no output '%s'", outputs_[i].name.c_str());
      if (outputs[i].data == nullptr) {
        outputs[i].shape = to_sizes(result.shape);
      } else if (result != backings[name]) {
        copy_elements(result, outputs[i], false);
      }
    }
  }

  id<MLFeatureProvider> run(MLDictionaryFeatureProvider *features, NSDictionary<NSString *, id> *backings,
                            NSError **error) {
    MLPredictionOptions *options = to_options(backings);
    if (@available(macOS 15.0, iOS 18.0, tvOS 18.0, *)) {
      if (state_ != nil) {
        return [model_ predictionFromFeatures:features usingState:(MLState *)state_ options:options error:error];
      }
    }
    return [model_ predictionFromFeatures:features options:options error:error];
  }

  void copy_state(const std::string &name, const Array &array, bool to_state) {
    if (@available(macOS 15.0, iOS 18.0, tvOS 18.0, *)) {
      if (state_ != nil) {
        // Catch exceptions: they must not propagate through the stack frames of Core ML, which calls the block.
        __block std::exception_ptr failure;
        [(MLState *)state_ getMultiArrayForStateNamed:to_string(name)
                                              handler:^(MLMultiArray *values) {
                                                try {
                                                  copy_elements(values, array, to_state);
                                                } catch (...) {
                                                  failure = std::current_exception();
                                                }
                                              }];
        if (failure) std::rethrow_exception(failure);
        return;
      }
    }
    fail(EDGECORE_NOT_SUPPORTED, "the state '%s' needs macOS 15 or iOS 18", name.c_str());
  }

  MLModel *model_;
  const std::vector<Feature> &inputs_, &outputs_;
  id state_ = nil;  // an MLState, a class that older systems lack
};

class CoreMlModel : public Model {
 public:
  explicit CoreMlModel(const Request &request) {
    @autoreleasepool {
      MLModelConfiguration *configuration = [[MLModelConfiguration alloc] init];
      configuration.computeUnits = to_compute_units(request.compute_units);
      if (!request.function.empty()) {
        if (@available(macOS 15.0, iOS 18.0, tvOS 18.0, *)) {
          configuration.functionName = to_string(request.function);
        } else {
          fail(EDGECORE_NOT_SUPPORTED, "a model with several functions needs macOS 15 or iOS 18");
        }
      }
      NSError *error = nil;
      model_ = [MLModel modelWithContentsOfURL:to_url(request.folder + kCompiled)
                                 configuration:configuration
                                         error:&error];
      if (model_ == nil) fail_with(error, "load the model");
      MLModelDescription *description = model_.modelDescription;
      for (const std::string &name : request.inputs) {
        inputs.push_back(to_feature(description.inputDescriptionsByName[to_string(name)], name));
      }
      bool is_fixed = true;
      for (const Feature &input : inputs) is_fixed = is_fixed && input.is_fixed;
      for (const std::string &name : request.outputs) {
        outputs.push_back(to_feature(description.outputDescriptionsByName[to_string(name)], name));
        Feature &output = outputs.back();
        output.is_fixed = output.is_fixed && is_fixed;
        if (!output.is_fixed) output.sizes.clear();
      }
    }
  }

  std::unique_ptr<Session> make_session() override { return std::make_unique<CoreMlSession>(model_, inputs, outputs); }

 private:
  MLModel *model_;
};

class CoreMlEngine : public Engine {
 public:
  void compile(const std::string &folder) override {
    @autoreleasepool {
      NSFileManager *files = [NSFileManager defaultManager];
      NSURL *target = to_url(folder + kCompiled);
      if ([files fileExistsAtPath:to_string(folder + kCompiled)]) return;  // the blob's model is compiled
      NSError *error = nil;
      NSURL *compiled = [MLModel compileModelAtURL:to_url(folder + kPackage) error:&error];
      if (compiled == nil) fail_with(error, "compile the model");
      if (![files moveItemAtURL:compiled toURL:target error:&error]) fail_with(error, "store the compiled model");
      [files removeItemAtURL:to_url(folder + kPackage) error:nil];  // the compiled model also contains the weights
    }
  }

  std::unique_ptr<Model> load(const Request &request) override { return std::make_unique<CoreMlModel>(request); }
};

}  // namespace

std::shared_ptr<Engine> make_engine(const std::string &standin) {
  if (!standin.empty()) fail(EDGECORE_INVALID_ARGUMENT, "the load option standin is for tests on Linux only");
  return std::make_shared<CoreMlEngine>();
}

}  // namespace edgecore::coreml
