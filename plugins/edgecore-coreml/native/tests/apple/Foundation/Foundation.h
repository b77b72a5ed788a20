// Declarations of the parts of Apple's Foundation that core_ml.mm uses, to check its syntax and types on other systems.
#ifndef EDGECORE_COREML_TESTS_FOUNDATION_H_
#define EDGECORE_COREML_TESTS_FOUNDATION_H_

#include <algorithm>
#include <cstdint>
#include <exception>

typedef long NSInteger;
typedef unsigned long NSUInteger;
typedef bool BOOL;
typedef struct _NSRange {
  NSUInteger location, length;
} NSRange;
#define nil nullptr

@protocol NSCopying
@end

__attribute__((objc_root_class))
@interface NSObject
+ (instancetype)alloc;
- (instancetype)init;
@end

@interface NSString : NSObject <NSCopying>
+ (instancetype)stringWithUTF8String:(const char *)text;
@property(readonly) const char *UTF8String;
@end

// The type of @"text".
@interface NSConstantString : NSString {
  const char *text_;
  unsigned int size_;
}
@end
extern void *_NSConstantStringClassReference;

@interface NSNumber : NSObject
+ (NSNumber *)numberWithLongLong:(long long)value;
@property(readonly) long long longLongValue;
@end

@interface NSValue : NSObject
@property(readonly) NSRange rangeValue;
@end

@interface NSError : NSObject
@property(readonly, copy) NSString *localizedDescription;
@end

@interface NSArray<ObjectType> : NSObject
@property(readonly) NSUInteger count;
- (ObjectType)objectAtIndexedSubscript:(NSUInteger)index;
@end

@interface NSMutableArray<ObjectType> : NSArray <ObjectType>
+ (instancetype)arrayWithCapacity:(NSUInteger)capacity;
- (void)addObject:(ObjectType)object;
@end

@interface NSDictionary<KeyType, ObjectType> : NSObject
+ (instancetype)dictionary;
+ (instancetype)dictionaryWithObjects:(const id[])objects forKeys:(const id<NSCopying>[])keys count:(NSUInteger)count;
@property(readonly) NSUInteger count;
- (ObjectType)objectForKeyedSubscript:(KeyType)key;
@end

@interface NSMutableDictionary<KeyType, ObjectType> : NSDictionary <KeyType, ObjectType>
- (void)setObject:(ObjectType)object forKeyedSubscript:(KeyType<NSCopying>)key;
@end

@interface NSURL : NSObject
+ (NSURL *)fileURLWithPath:(NSString *)path;
@end

@interface NSFileManager : NSObject
+ (NSFileManager *)defaultManager;
- (BOOL)fileExistsAtPath:(NSString *)path;
- (BOOL)moveItemAtURL:(NSURL *)from toURL:(NSURL *)to error:(NSError **)error;
- (BOOL)removeItemAtURL:(NSURL *)url error:(NSError **)error;
@end

#endif  // EDGECORE_COREML_TESTS_FOUNDATION_H_
