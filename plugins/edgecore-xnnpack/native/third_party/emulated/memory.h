// Emulated load and store instructions. A masked load or store accesses only the elements that its mask selects, as the
// real instruction does, so that a test with a guard page after a buffer faults only if the real kernel would fault.
// An aligned load or store traps at an unaligned address, also as the real instruction does.
#ifndef EDGECORE_EMULATED_MEMORY_H
#define EDGECORE_EMULATED_MEMORY_H

EDGECORE_EMULATED void edgecore_load_selected(void *to, const void *from, uint64_t selected, int elements, int bytes) {
  memset(to, 0, (size_t)elements * (size_t)bytes);
  for (int i = 0; i < elements; i++) {
    if ((selected >> i) & 1) {
      memcpy((char *)to + i * bytes, (const char *)from + i * bytes, (size_t)bytes);
    }
  }
}

EDGECORE_EMULATED void edgecore_store_selected(void *to, const void *from, uint64_t selected, int elements, int bytes) {
  for (int i = 0; i < elements; i++) {
    if ((selected >> i) & 1) {
      memcpy((char *)to + i * bytes, (const char *)from + i * bytes, (size_t)bytes);
    }
  }
}

#define EDGECORE_MASKED(type, load, store, mask, elements, bytes)       \
  EDGECORE_EMULATED type edgecore##load(mask k, const void *from) {     \
    type r;                                                             \
    edgecore_load_selected(&r, from, k, elements, bytes);               \
    return r;                                                           \
  }                                                                     \
  EDGECORE_EMULATED void edgecore##store(void *to, mask k, type from) { \
    edgecore_store_selected(to, &from, k, elements, bytes);             \
  }

EDGECORE_MASKED(__m512, _mm512_maskz_loadu_ps, _mm512_mask_storeu_ps, __mmask16, 16, 4)
EDGECORE_MASKED(__m512i, _mm512_maskz_loadu_epi32, _mm512_mask_storeu_epi32, __mmask16, 16, 4)
EDGECORE_MASKED(__m512i, _mm512_maskz_loadu_epi16, _mm512_mask_storeu_epi16, __mmask32, 32, 2)
EDGECORE_MASKED(__m512i, _mm512_maskz_loadu_epi8, _mm512_mask_storeu_epi8, __mmask64, 64, 1)
EDGECORE_MASKED(__m256, _mm256_maskz_loadu_ps, _mm256_mask_storeu_ps, __mmask8, 8, 4)
EDGECORE_MASKED(__m256i, _mm256_maskz_loadu_epi16, _mm256_mask_storeu_epi16, __mmask16, 16, 2)
EDGECORE_MASKED(__m256i, _mm256_maskz_loadu_epi8, _mm256_mask_storeu_epi8, __mmask32, 32, 1)
EDGECORE_MASKED(__m128i, _mm_maskz_loadu_epi16, _mm_mask_storeu_epi16, __mmask8, 8, 2)
EDGECORE_MASKED(__m128i, _mm_maskz_loadu_epi8, _mm_mask_storeu_epi8, __mmask16, 16, 1)
#undef EDGECORE_MASKED

// Reads consecutive elements, one for each bit in `k`, and puts them at the positions of the bits.
EDGECORE_EMULATED __m512i edgecore_mm512_maskz_expandloadu_epi32(__mmask16 k, const void *from) {
  int32_t r[16] = {0};
  const char *next = (const char *)from;
  for (int i = 0; i < 16; i++) {
    if ((k >> i) & 1) {
      memcpy(&r[i], next, sizeof(int32_t));
      next += sizeof(int32_t);
    }
  }
  __m512i v;
  memcpy(&v, r, sizeof(v));
  return v;
}

#define EDGECORE_ALIGNED(type, load, store)                     \
  EDGECORE_EMULATED type edgecore##load(const void *from) {     \
    if ((uintptr_t)from % 64 != 0) {                            \
      __builtin_trap();                                         \
    }                                                           \
    type r;                                                     \
    memcpy(&r, from, sizeof(r));                                \
    return r;                                                   \
  }                                                             \
  EDGECORE_EMULATED void edgecore##store(void *to, type from) { \
    if ((uintptr_t)to % 64 != 0) {                              \
      __builtin_trap();                                         \
    }                                                           \
    memcpy(to, &from, sizeof(from));                            \
  }

EDGECORE_ALIGNED(__m512, _mm512_load_ps, _mm512_store_ps)
EDGECORE_ALIGNED(__m512i, _mm512_load_epi32, _mm512_store_epi32)
EDGECORE_ALIGNED(__m512i, _mm512_load_si512, _mm512_store_si512)
EDGECORE_ALIGNED(__m512h, _mm512_load_ph, _mm512_store_ph)
#undef EDGECORE_ALIGNED

#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps edgecore_mm512_maskz_loadu_ps
#undef _mm512_maskz_loadu_epi32
#define _mm512_maskz_loadu_epi32 edgecore_mm512_maskz_loadu_epi32
#undef _mm512_maskz_loadu_epi16
#define _mm512_maskz_loadu_epi16 edgecore_mm512_maskz_loadu_epi16
#undef _mm512_maskz_loadu_epi8
#define _mm512_maskz_loadu_epi8 edgecore_mm512_maskz_loadu_epi8
#undef _mm256_maskz_loadu_ps
#define _mm256_maskz_loadu_ps edgecore_mm256_maskz_loadu_ps
#undef _mm256_maskz_loadu_epi16
#define _mm256_maskz_loadu_epi16 edgecore_mm256_maskz_loadu_epi16
#undef _mm256_maskz_loadu_epi8
#define _mm256_maskz_loadu_epi8 edgecore_mm256_maskz_loadu_epi8
#undef _mm_maskz_loadu_epi16
#define _mm_maskz_loadu_epi16 edgecore_mm_maskz_loadu_epi16
#undef _mm_maskz_loadu_epi8
#define _mm_maskz_loadu_epi8 edgecore_mm_maskz_loadu_epi8
#undef _mm512_maskz_expandloadu_epi32
#define _mm512_maskz_expandloadu_epi32 edgecore_mm512_maskz_expandloadu_epi32

#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps edgecore_mm512_mask_storeu_ps
#undef _mm512_mask_storeu_epi32
#define _mm512_mask_storeu_epi32 edgecore_mm512_mask_storeu_epi32
#undef _mm512_mask_storeu_epi16
#define _mm512_mask_storeu_epi16 edgecore_mm512_mask_storeu_epi16
#undef _mm512_mask_storeu_epi8
#define _mm512_mask_storeu_epi8 edgecore_mm512_mask_storeu_epi8
#undef _mm256_mask_storeu_ps
#define _mm256_mask_storeu_ps edgecore_mm256_mask_storeu_ps
#undef _mm256_mask_storeu_epi16
#define _mm256_mask_storeu_epi16 edgecore_mm256_mask_storeu_epi16
#undef _mm256_mask_storeu_epi8
#define _mm256_mask_storeu_epi8 edgecore_mm256_mask_storeu_epi8
#undef _mm_mask_storeu_epi16
#define _mm_mask_storeu_epi16 edgecore_mm_mask_storeu_epi16
#undef _mm_mask_storeu_epi8
#define _mm_mask_storeu_epi8 edgecore_mm_mask_storeu_epi8

#undef _mm512_load_ps
#define _mm512_load_ps edgecore_mm512_load_ps
#undef _mm512_load_epi32
#define _mm512_load_epi32 edgecore_mm512_load_epi32
#undef _mm512_load_si512
#define _mm512_load_si512 edgecore_mm512_load_si512
#undef _mm512_load_ph
#define _mm512_load_ph edgecore_mm512_load_ph
#undef _mm512_store_ps
#define _mm512_store_ps edgecore_mm512_store_ps
#undef _mm512_store_epi32
#define _mm512_store_epi32 edgecore_mm512_store_epi32
#undef _mm512_store_si512
#define _mm512_store_si512 edgecore_mm512_store_si512
#undef _mm512_store_ph
#define _mm512_store_ph edgecore_mm512_store_ph

#endif
