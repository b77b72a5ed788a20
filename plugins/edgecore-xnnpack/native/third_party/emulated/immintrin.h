// Intrinsics of AVX512, AVX512-FP16, AVX-VNNI, AVX-VNNI-INT8, GFNI and AMX as plain C, for processors with AVX2, FMA3
// and F16C. When XNNPACK's kernels are compiled for tests, this file comes before the compiler's header of the same
// name in the include path.
//
// There are three layers: the compiler's intrinsics up to AVX2; SIMDe's for AVX512; and ours. Ours are those that SIMDe
// lacks, and those for which SIMDe differs from the instruction in a way that tests must detect: the accessed bytes,
// the required alignment, the precision. A kernel that uses an intrinsic of no layer does not compile, because the
// compiler's version requires the instruction set.
#ifndef EDGECORE_EMULATED_IMMINTRIN_H
#define EDGECORE_EMULATED_IMMINTRIN_H

#if defined(__AVX512F__) || !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "The emulation is compiled with -mavx2 -mfma -mf16c and nothing newer."
#endif

#include_next <immintrin.h>
#include <string.h>

#define __mmask64 __mmask64  // keeps SIMDe from defining a type of this name that differs from the compiler's
#define SIMDE_ENABLE_NATIVE_ALIASES
// Only the headers that the kernels use: parsing all of SIMDe takes longer than compiling a kernel.
#include <simde/x86/avx512/add.h>
#include <simde/x86/avx512/adds.h>
#include <simde/x86/avx512/and.h>
#include <simde/x86/avx512/blend.h>
#include <simde/x86/avx512/broadcast.h>
#include <simde/x86/avx512/cast.h>
#include <simde/x86/avx512/cmp.h>
#include <simde/x86/avx512/cvt.h>
#include <simde/x86/avx512/cvts.h>
#include <simde/x86/avx512/div.h>
#include <simde/x86/avx512/dpbusd.h>
#include <simde/x86/avx512/extract.h>
#include <simde/x86/avx512/fmadd.h>
#include <simde/x86/avx512/fmsub.h>
#include <simde/x86/avx512/fnmadd.h>
#include <simde/x86/avx512/insert.h>
#include <simde/x86/avx512/loadu.h>
#include <simde/x86/avx512/madd.h>
#include <simde/x86/avx512/maddubs.h>
#include <simde/x86/avx512/max.h>
#include <simde/x86/avx512/min.h>
#include <simde/x86/avx512/mov.h>
#include <simde/x86/avx512/mov_mask.h>
#include <simde/x86/avx512/mul.h>
#include <simde/x86/avx512/mulhi.h>
#include <simde/x86/avx512/mullo.h>
#include <simde/x86/avx512/or.h>
#include <simde/x86/avx512/packs.h>
#include <simde/x86/avx512/packus.h>
#include <simde/x86/avx512/permutex2var.h>
#include <simde/x86/avx512/permutexvar.h>
#include <simde/x86/avx512/roundscale.h>
#include <simde/x86/avx512/set.h>
#include <simde/x86/avx512/set1.h>
#include <simde/x86/avx512/setzero.h>
#include <simde/x86/avx512/shuffle.h>
#include <simde/x86/avx512/slli.h>
#include <simde/x86/avx512/srai.h>
#include <simde/x86/avx512/srli.h>
#include <simde/x86/avx512/storeu.h>
#include <simde/x86/avx512/sub.h>
#include <simde/x86/avx512/subs.h>
#include <simde/x86/avx512/unpackhi.h>
#include <simde/x86/avx512/unpacklo.h>
#include <simde/x86/avx512/xor.h>
#include <simde/x86/gfni.h>

#define EDGECORE_EMULATED static inline __attribute__((always_inline, unused))

#include "floats.h"
#include "fp16.h"
#include "integers.h"
#include "memory.h"
#include "tiles.h"

// XNNPACK's files are empty unless these macros are defined.
#define __AVX512F__ 1
#define __AVX512BW__ 1
#define __AVX512FP16__ 1

#endif
