// Declarations of the parts of Apple's Core ML that core_ml.mm uses, to check its syntax and types on other systems.
#ifndef EDGECORE_COREML_TESTS_CORE_ML_H_
#define EDGECORE_COREML_TESTS_CORE_ML_H_

#import <Foundation/Foundation.h>

typedef enum : NSInteger {
  MLComputeUnitsCPUOnly = 0,
  MLComputeUnitsCPUAndGPU = 1,
  MLComputeUnitsAll = 2,
  MLComputeUnitsCPUAndNeuralEngine = 3,
} MLComputeUnits;

typedef enum : NSInteger {
  MLMultiArrayDataTypeDouble = 0x10000 | 64,
  MLMultiArrayDataTypeFloat32 = 0x10000 | 32,
  MLMultiArrayDataTypeFloat16 = 0x10000 | 16,
  MLMultiArrayDataTypeInt32 = 0x20000 | 32,
} MLMultiArrayDataType;

typedef enum : NSInteger {
  MLMultiArrayShapeConstraintTypeUnspecified = 1,
  MLMultiArrayShapeConstraintTypeEnumerated = 2,
  MLMultiArrayShapeConstraintTypeRange = 3,
} MLMultiArrayShapeConstraintType;

@interface MLMultiArray : NSObject
- (instancetype)initWithDataPointer:(void *)data
                              shape:(NSArray<NSNumber *> *)shape
                           dataType:(MLMultiArrayDataType)type
                            strides:(NSArray<NSNumber *> *)strides
                        deallocator:(void (^)(void *bytes))deallocator
                              error:(NSError **)error;
@property(readonly) MLMultiArrayDataType dataType;
@property(readonly) NSArray<NSNumber *> *shape;
@property(readonly) NSArray<NSNumber *> *strides;
- (void)getBytesWithHandler:(void (^)(const void *bytes, NSInteger size))handler;
- (void)getMutableBytesWithHandler:(void (^)(void *bytes, NSInteger size, NSArray<NSNumber *> *strides))handler;
@end

@interface MLMultiArrayShapeConstraint : NSObject
@property(readonly) MLMultiArrayShapeConstraintType type;
@property(readonly) NSArray<NSValue *> *sizeRangeForDimension;
@property(readonly) NSArray<NSArray<NSNumber *> *> *enumeratedShapes;
@end

@interface MLMultiArrayConstraint : NSObject
@property(readonly) NSArray<NSNumber *> *shape;
@property(readonly) MLMultiArrayDataType dataType;
@property(readonly) MLMultiArrayShapeConstraint *shapeConstraint;
@end

@interface MLFeatureDescription : NSObject
@property(readonly) MLMultiArrayConstraint *multiArrayConstraint;
@end

@interface MLFeatureValue : NSObject
@property(readonly) MLMultiArray *multiArrayValue;
@end

@protocol MLFeatureProvider
- (MLFeatureValue *)featureValueForName:(NSString *)name;
@end

@interface MLDictionaryFeatureProvider : NSObject <MLFeatureProvider>
- (instancetype)initWithDictionary:(NSDictionary<NSString *, id> *)values error:(NSError **)error;
@end

@interface MLModelDescription : NSObject
@property(readonly) NSDictionary<NSString *, MLFeatureDescription *> *inputDescriptionsByName;
@property(readonly) NSDictionary<NSString *, MLFeatureDescription *> *outputDescriptionsByName;
@property(readonly) NSDictionary<NSString *, MLFeatureDescription *> *stateDescriptionsByName
    __attribute__((availability(macos, introduced=15.0)));
@end

@interface MLModelConfiguration : NSObject
@property MLComputeUnits computeUnits;
@property(copy) NSString *functionName __attribute__((availability(macos, introduced=15.0)));
@end

@interface MLPredictionOptions : NSObject
@property(copy) NSDictionary<NSString *, id> *outputBackings;
@end

__attribute__((availability(macos, introduced = 15.0)))
@interface MLState : NSObject
- (void)getMultiArrayForStateNamed:(NSString *)name handler:(void (^)(MLMultiArray *values))handler;
@end

@interface MLModel : NSObject
+ (MLModel *)modelWithContentsOfURL:(NSURL *)url
                      configuration:(MLModelConfiguration *)configuration
                              error:(NSError **)error;
+ (NSURL *)compileModelAtURL:(NSURL *)url error:(NSError **)error;
@property(readonly) MLModelDescription *modelDescription;
- (MLState *)newState __attribute__((availability(macos, introduced = 15.0)));
- (id<MLFeatureProvider>)predictionFromFeatures:(id<MLFeatureProvider>)features
                                        options:(MLPredictionOptions *)options
                                          error:(NSError **)error;
- (void)predictionFromFeatures:(id<MLFeatureProvider>)features
                       options:(MLPredictionOptions *)options
             completionHandler:(void (^)(id<MLFeatureProvider> output, NSError *error))handler
    __attribute__((availability(macos, introduced = 14.0)));
- (id<MLFeatureProvider>)predictionFromFeatures:(id<MLFeatureProvider>)features
                                     usingState:(MLState *)state
                                        options:(MLPredictionOptions *)options
                                          error:(NSError **)error
    __attribute__((availability(macos, introduced = 15.0)));
@end

#endif  // EDGECORE_COREML_TESTS_CORE_ML_H_
