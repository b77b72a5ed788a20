// Compares emulated intrinsics with the definitions of the instructions in Intel's manuals: the intrinsics that this
// plugin emulates, and the intrinsics of the library SIMDe that XNNPACK's kernels use.
#include <gtest/gtest.h>
#include <immintrin.h>
#include <sys/mman.h>

#include <array>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename Element, typename Vector>
std::array<Element, sizeof(Vector) / sizeof(Element)> elements_of(Vector v) {
  std::array<Element, sizeof(Vector) / sizeof(Element)> r;
  memcpy(r.data(), &v, sizeof(v));
  return r;
}

template <typename Vector, typename Element>
Vector from(const std::array<Element, sizeof(Vector) / sizeof(Element)> &elements) {
  Vector v;
  memcpy(&v, elements.data(), sizeof(v));
  return v;
}

template <typename Element, typename Vector>
std::array<Element, sizeof(Vector) / sizeof(Element)> random_elements(uint32_t seed) {
  std::mt19937 random(seed);
  std::array<Element, sizeof(Vector) / sizeof(Element)> r;
  for (Element &x : r) x = static_cast<Element>(random());
  return r;
}

template <typename Vector>
Vector random_vector(uint32_t seed) {
  return from<Vector>(random_elements<uint8_t, Vector>(seed));
}

template <typename Vector>
Vector floats(std::initializer_list<float> first) {
  std::array<float, sizeof(Vector) / 4> r = {};
  std::copy(first.begin(), first.end(), r.begin());
  return from<Vector>(r);
}

// A page of memory before a guard page; last(n) returns the address of its last n bytes.
class GuardedPage {
 public:
  GuardedPage() {
    base_ = static_cast<char *>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + 4096, 4096, PROT_NONE);
  }
  ~GuardedPage() { munmap(base_, 8192); }
  char *last(size_t bytes) { return base_ + 4096 - bytes; }

 private:
  char *base_;
};

// --- Memory ----------------------------------------------------------------------------------------------------------

TEST(Memory, AMaskedLoadReadsOnlyTheSelectedElements) {
  GuardedPage memory;
  for (int n = 0; n <= 16; n++) {
    auto *last = reinterpret_cast<float *>(memory.last(static_cast<size_t>(n) * 4));
    for (int i = 0; i < n; i++) last[i] = static_cast<float>(i + 1);
    const auto read = elements_of<float>(_mm512_maskz_loadu_ps(_cvtu32_mask16((1u << n) - 1), last));
    for (int i = 0; i < 16; i++) EXPECT_EQ(read[static_cast<size_t>(i)], i < n ? static_cast<float>(i + 1) : 0.0f);
  }
  for (int n = 0; n < 32; n++) {
    char *last = memory.last(static_cast<size_t>(n) * 2);
    memset(last, 0x5A, static_cast<size_t>(n) * 2);
    const auto read = elements_of<uint16_t>(_mm512_maskz_loadu_epi16(_cvtu32_mask32((1u << n) - 1), last));
    for (int i = 0; i < 32; i++) EXPECT_EQ(read[static_cast<size_t>(i)], i < n ? 0x5A5A : 0);
  }
  *memory.last(1) = 77;
  EXPECT_EQ(elements_of<int8_t>(_mm512_maskz_loadu_epi8(_cvtu64_mask64(1), memory.last(1)))[0], 77);
  EXPECT_EQ(elements_of<int8_t>(_mm256_maskz_loadu_epi8(_cvtu32_mask32(1), memory.last(1)))[0], 77);
  EXPECT_EQ(elements_of<int8_t>(_mm_maskz_loadu_epi8(_cvtu32_mask16(1), memory.last(1)))[0], 77);
}

TEST(Memory, AMaskedStoreWritesOnlyTheSelectedElements) {
  GuardedPage memory;
  const auto v = from<__m512i>(random_elements<uint8_t, __m512i>(1));
  memset(memory.last(64), 0, 64);
  _mm512_mask_storeu_epi8(memory.last(3), _cvtu64_mask64(5), v);
  EXPECT_EQ(memory.last(3)[0], static_cast<char>(elements_of<uint8_t>(v)[0]));
  EXPECT_EQ(memory.last(3)[1], 0);
  EXPECT_EQ(memory.last(3)[2], static_cast<char>(elements_of<uint8_t>(v)[2]));
  _mm512_mask_storeu_ps(memory.last(8), _cvtu32_mask16(3), floats<__m512>({1.5f, -2.0f, 9.0f}));
  float pair[2];
  memcpy(pair, memory.last(8), 8);
  EXPECT_EQ(pair[0], 1.5f);
  EXPECT_EQ(pair[1], -2.0f);
  _mm256_mask_storeu_epi16(memory.last(2), _cvtu32_mask16(1), _mm256_set1_epi16(0x1234));
  EXPECT_EQ(memory.last(2)[0], 0x34);
}

TEST(Memory, AnExpandingLoadReadsConsecutiveElements) {
  GuardedPage memory;
  auto *last = reinterpret_cast<int32_t *>(memory.last(12));
  last[0] = 10, last[1] = 11, last[2] = 12;
  const auto read = elements_of<int32_t>(_mm512_maskz_expandloadu_epi32(_cvtu32_mask16(0x1110), last));
  EXPECT_EQ(read, (std::array<int32_t, 16>{0, 0, 0, 0, 10, 0, 0, 0, 11, 0, 0, 0, 12, 0, 0, 0}));
}

TEST(MemoryDeathTest, AnAlignedAccessOfAnUnalignedAddressTraps) {
  alignas(64) char bytes[128] = {};
  EXPECT_EQ(elements_of<int32_t>(_mm512_load_epi32(bytes + 64))[0], 0);
  EXPECT_DEATH(_mm512_load_ps(bytes + 4), "");
  EXPECT_DEATH(_mm512_store_ps(bytes + 32, _mm512_setzero_ps()), "");
}

// --- Integers --------------------------------------------------------------------------------------------------------

TEST(Integers, ExtensionKeepsValueAndSign) {
  const __m128i bytes = _mm_setr_epi8(-128, -1, 0, 1, 127, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, -15);
  const auto is = elements_of<int32_t>(_mm512_cvtepi8_epi32(bytes));
  const auto us = elements_of<int32_t>(_mm512_cvtepu8_epi32(bytes));
  EXPECT_EQ(is[0], -128);
  EXPECT_EQ(us[0], 128);
  EXPECT_EQ(is[15], -15);
  EXPECT_EQ(us[15], 241);
  EXPECT_EQ(elements_of<uint16_t>(_mm512_cvtepu8_epi16(_mm256_set1_epi8(-2)))[31], 254);
  EXPECT_EQ(elements_of<uint64_t>(_mm512_cvtepu32_epi64(_mm256_set1_epi32(-2)))[7], 0xFFFFFFFEu);
}

TEST(Integers, AnArithmeticShiftByMoreThan31LeavesTheSign) {
  const __m512i v = _mm512_set1_epi32(-1000);
  EXPECT_EQ(elements_of<int32_t>(_mm512_sra_epi32(v, _mm_cvtsi32_si128(3)))[9], -125);
  EXPECT_EQ(elements_of<int32_t>(_mm512_sra_epi32(v, _mm_cvtsi32_si128(32)))[9], -1);
  EXPECT_EQ(elements_of<int32_t>(_mm512_sra_epi32(_mm512_set1_epi32(1000), _mm_cvtsi32_si128(77)))[9], 0);
}

TEST(Integers, TestnSetsABitWhereNoBitIsCommon) {
  EXPECT_EQ(_mm512_testn_epi32_mask(_mm512_set1_epi32(6), _mm512_set1_epi32(9)), 0xFFFF);
  std::array<int32_t, 16> x = {};
  x[3] = 4;
  EXPECT_EQ(_mm512_testn_epi32_mask(from<__m512i>(x), _mm512_set1_epi32(-1)), 0xFFF7);
}

TEST(Integers, AMaskOf16ElementsIsANumber) { EXPECT_EQ(_cvtmask16_u32(_cvtu32_mask16(0x8001)), 0x8001u); }

TEST(Integers, HighHalvesOfProductsHaveASign) {
  const __m512i product = _mm512_mulhi_epi16(_mm512_set1_epi16(-255), _mm512_set1_epi16(255));
  EXPECT_EQ(elements_of<int16_t>(product)[17], -1);
}

TEST(Integers, AReductionAddsAllElements) {
  std::array<int32_t, 16> x;
  for (int i = 0; i < 16; i++) x[static_cast<size_t>(i)] = i * i * (i % 2 == 0 ? 1 : -1);
  EXPECT_EQ(_mm512_reduce_add_epi32(from<__m512i>(x)), -120);
}

// Checks sums of four products of int8 numbers, or of uint8 and int8 numbers, as the manuals define them.
template <typename A, typename Vector>
void expect_dot_products(Vector got, Vector into, Vector a, Vector b) {
  const auto r = elements_of<int32_t>(got);
  const auto start = elements_of<int32_t>(into);
  for (size_t i = 0; i < r.size(); i++) {
    int64_t sum = start[i];
    for (size_t j = 4 * i; j < 4 * i + 4; j++) sum += int64_t{elements_of<A>(a)[j]} * elements_of<int8_t>(b)[j];
    EXPECT_EQ(r[i], static_cast<int32_t>(static_cast<uint32_t>(sum))) << i;
  }
}

TEST(Integers, DotProductsOfFourBytesAreExact) {
  for (uint32_t seed = 0; seed < 200; seed++) {
    const auto a = random_vector<__m512i>(3 * seed), b = random_vector<__m512i>(3 * seed + 1),
               c = random_vector<__m512i>(3 * seed + 2);
    expect_dot_products<uint8_t>(_mm512_dpbusd_epi32(c, a, b), c, a, b);
    const auto d = random_vector<__m256i>(3 * seed), e = random_vector<__m256i>(3 * seed + 1),
               f = random_vector<__m256i>(3 * seed + 2);
    expect_dot_products<uint8_t>(_mm256_dpbusd_epi32(f, d, e), f, d, e);
    expect_dot_products<uint8_t>(_mm256_dpbusd_avx_epi32(f, d, e), f, d, e);
    expect_dot_products<int8_t>(_mm256_dpbssd_epi32(f, d, e), f, d, e);
  }
}

// Uses the largest products of equal signs, for which VPMADDUBSW saturates, but the dot product instructions do not.
TEST(Integers, DotProductsDoNotSaturate) {
  const __m512i uint8_max = _mm512_set1_epi8(-1), int8_min = _mm512_set1_epi8(-128);
  EXPECT_EQ(elements_of<int32_t>(_mm512_dpbusd_epi32(_mm512_setzero_si512(), uint8_max, int8_min))[0], -4 * 255 * 128);
  const __m256i bytes = _mm256_set1_epi8(-128);
  EXPECT_EQ(elements_of<int32_t>(_mm256_dpbssd_epi32(_mm256_setzero_si256(), bytes, bytes))[7], 4 * 128 * 128);
}

// Tests GF2P8AFFINEQB: bit i of an output byte is parity(input byte AND row 7 - i of an 8x8 bit matrix), XOR bit i of
// the immediate.
TEST(Integers, AnAffineMapMultipliesByAMatrixOfBits) {
  for (uint32_t seed = 0; seed < 100; seed++) {
    const auto x = random_vector<__m512i>(seed), matrices = random_vector<__m512i>(seed + 1000);
    const auto got = elements_of<uint8_t>(_mm512_gf2p8affine_epi64_epi8(x, matrices, 0x53));
    for (size_t i = 0; i < 64; i++) {
      for (size_t bit = 0; bit < 8; bit++) {
        const unsigned row = elements_of<uint8_t>(matrices)[i / 8 * 8 + (7 - bit)] & elements_of<uint8_t>(x)[i];
        const int want = __builtin_parity(row) ^ ((0x53 >> bit) & 1);
        EXPECT_EQ((got[i] >> bit) & 1, want);
      }
    }
  }
}

TEST(Integers, PermutationsReadTheElementsAtTheirIndices) {
  for (uint32_t seed = 0; seed < 50; seed++) {
    const auto a = random_vector<__m512i>(seed), index = random_vector<__m512i>(seed + 1000),
               b = random_vector<__m512i>(seed + 2000);
    const auto words = elements_of<uint32_t>(_mm512_permutex2var_epi32(a, index, b));
    const auto floats =
        elements_of<uint32_t>(_mm512_permutex2var_ps(_mm512_castsi512_ps(a), index, _mm512_castsi512_ps(b)));
    const auto single = elements_of<uint32_t>(_mm512_permutexvar_epi32(index, a));
    for (size_t i = 0; i < 16; i++) {
      const uint32_t at = elements_of<uint32_t>(index)[i];
      EXPECT_EQ(words[i], elements_of<uint32_t>((at & 16) != 0 ? b : a)[at & 15]);
      EXPECT_EQ(floats[i], words[i]);
      EXPECT_EQ(single[i], elements_of<uint32_t>(a)[at & 15]);
    }
    const auto bytes = elements_of<uint8_t>(_mm512_permutex2var_epi8(a, index, b));
    const auto masked = elements_of<uint8_t>(_mm512_maskz_permutex2var_epi8(0xF0F0F0F0F0F0F0F0u, a, index, b));
    const auto shuffled = elements_of<uint8_t>(_mm512_shuffle_epi8(a, index));
    for (size_t i = 0; i < 64; i++) {
      const uint8_t at = elements_of<uint8_t>(index)[i];
      EXPECT_EQ(bytes[i], elements_of<uint8_t>((at & 64) != 0 ? b : a)[at & 63]);
      EXPECT_EQ(masked[i], (i & 4) != 0 ? bytes[i] : 0);
      EXPECT_EQ(shuffled[i], (at & 128) != 0 ? 0 : elements_of<uint8_t>(a)[(i & 48) + (at & 15)]);
    }
  }
}

TEST(Integers, NarrowingSaturates) {
  std::array<int32_t, 16> x = {-300, 300, -128, 127, 5, 40000, -40000, INT32_MAX, INT32_MIN};
  const auto bytes = elements_of<int8_t>(_mm512_cvtsepi32_epi8(from<__m512i>(x)));
  EXPECT_EQ(
      (std::array<int8_t, 9>{bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7], bytes[8]}),
      (std::array<int8_t, 9>{-128, 127, -128, 127, 5, 127, -128, 127, -128}));
  const auto shorts = elements_of<int16_t>(_mm512_cvtsepi32_epi16(from<__m512i>(x)));
  EXPECT_EQ(shorts[5], 32767);
  EXPECT_EQ(shorts[6], -32768);
  EXPECT_EQ(shorts[0], -300);
}

// These instructions work on parts of 128 bits, so they must agree with the 256-bit instructions of this processor.
TEST(Integers, OperationsInPartsOf128BitsEqualThoseOf256Bits) {
  for (uint32_t seed = 0; seed < 20; seed++) {
    const auto a = random_vector<__m512i>(seed), b = random_vector<__m512i>(seed + 1000);
    const auto part_of = [](__m512i v, int part) {
      return from<__m256i>(part == 0
                               ? std::array<uint64_t, 4>{elements_of<uint64_t>(v)[0], elements_of<uint64_t>(v)[1],
                                                         elements_of<uint64_t>(v)[2], elements_of<uint64_t>(v)[3]}
                               : std::array<uint64_t, 4>{elements_of<uint64_t>(v)[4], elements_of<uint64_t>(v)[5],
                                                         elements_of<uint64_t>(v)[6], elements_of<uint64_t>(v)[7]});
    };
    for (int part = 0; part < 2; part++) {
      const __m256i x = part_of(a, part), y = part_of(b, part);
#define EXPECT_SAME(name)                                                                                        \
  EXPECT_EQ(elements_of<uint8_t>(part_of(_mm512_##name(a, b), part)), elements_of<uint8_t>(_mm256_##name(x, y))) \
      << #name
      EXPECT_SAME(packs_epi32);
      EXPECT_SAME(packs_epi16);
      EXPECT_SAME(packus_epi16);
      EXPECT_SAME(unpacklo_epi32);
      EXPECT_SAME(unpackhi_epi32);
      EXPECT_SAME(madd_epi16);
      EXPECT_SAME(maddubs_epi16);
      EXPECT_SAME(adds_epi16);
      EXPECT_SAME(subs_epi8);
      EXPECT_SAME(mullo_epi32);
      EXPECT_SAME(max_epi8);
      EXPECT_SAME(max_epu8);
      EXPECT_SAME(min_epi8);
      EXPECT_SAME(min_epu8);
      EXPECT_SAME(min_epi32);
      EXPECT_SAME(max_epi32);
      EXPECT_SAME(add_epi16);
      EXPECT_SAME(sub_epi8);
      EXPECT_SAME(shuffle_epi8);
#undef EXPECT_SAME
    }
  }
}

// --- fp32 ------------------------------------------------------------------------------------------------------------

TEST(Floats, ConversionToIntegersRoundsToEvenAndReturnsMinOnOverflow) {
  const auto r =
      elements_of<int32_t>(_mm512_cvtps_epi32(floats<__m512>({0.5f, 1.5f, -2.5f, 3e9f, -3e9f, kNan, 2147483520.0f})));
  EXPECT_EQ((std::array<int32_t, 7>{r[0], r[1], r[2], r[3], r[4], r[5], r[6]}),
            (std::array<int32_t, 7>{0, 2, -2, INT32_MIN, INT32_MIN, INT32_MIN, 2147483520}));
}

TEST(Floats, TheMaxWithANanIsTheSecondOperand) {
  const auto r =
      elements_of<float>(_mm512_max_ps(floats<__m512>({kNan, 1.0f, 0.0f}), floats<__m512>({2.0f, kNan, -0.0f})));
  EXPECT_EQ(r[0], 2.0f);
  EXPECT_TRUE(std::isnan(r[1]));
  EXPECT_TRUE(std::signbit(r[2]));
}

TEST(Floats, ComparisonsAreOrderedOrUnorderedAsNamed) {
  const auto a = floats<__m512>({1.0f, kNan, 2.0f, 0.0f}), b = floats<__m512>({2.0f, 1.0f, 1.0f, -0.0f});
  EXPECT_EQ(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ) & 15, 1);
  EXPECT_EQ(_mm512_cmp_ps_mask(a, b, _CMP_NLT_US) & 15, 14);
  EXPECT_EQ(_mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ) & 15, 8);
}

TEST(Floats, AFusedMultiplyAddRoundsOnce) {
  const float x = 1.0f + 0x1p-23f;
  const __m512 a = _mm512_set1_ps(x), c = _mm512_set1_ps(-1.0f - 0x1p-22f);
  EXPECT_EQ(elements_of<float>(_mm512_fmadd_ps(a, a, c))[5], 0x1p-46f);
  EXPECT_EQ(elements_of<float>(_mm512_fnmadd_ps(a, a, _mm512_set1_ps(1.0f + 0x1p-22f)))[5], -0x1p-46f);
}

TEST(Floats, RoundscaleRoundsAsItsImmediateSays) {
  const auto x = floats<__m512>({2.5f, -2.5f, -0.25f, kInfinity, 1e30f});
  const auto nearest = elements_of<float>(_mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT));
  EXPECT_EQ(nearest[0], 2.0f);
  EXPECT_EQ(nearest[1], -2.0f);
  EXPECT_TRUE(nearest[2] == 0.0f && std::signbit(nearest[2]));
  EXPECT_EQ(nearest[3], kInfinity);
  EXPECT_EQ(nearest[4], 1e30f);
  EXPECT_EQ(elements_of<float>(_mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF))[1], -3.0f);
  EXPECT_EQ(elements_of<float>(_mm512_roundscale_ps(x, _MM_FROUND_TO_POS_INF))[0], 3.0f);
  EXPECT_EQ(elements_of<float>(_mm512_maskz_roundscale_ps(1, x, _MM_FROUND_TO_ZERO))[1], 0.0f);
}

TEST(Floats, GetexpReturnsTheExponentAlsoOfDenormals) {
  const auto r = elements_of<float>(
      _mm512_getexp_ps(floats<__m512>({1.0f, -3.9f, 0x1p-149f, 0.0f, -kInfinity, kNan, 0x1.8p-130f})));
  EXPECT_EQ(r[0], 0.0f);
  EXPECT_EQ(r[1], 1.0f);
  EXPECT_EQ(r[2], -149.0f);
  EXPECT_EQ(r[3], -kInfinity);
  EXPECT_EQ(r[4], kInfinity);
  EXPECT_TRUE(std::isnan(r[5]));
  EXPECT_EQ(r[6], -130.0f);
}

TEST(Floats, ScalefMultipliesByPowersOfTwoThatAreNoFloats) {
  const auto a = floats<__m512>({1.5f, 0x1p-100f, 0x1p100f, 3.0f, 1.0f, 0.0f, kInfinity, -1.0f, kNan, kNan, 1.0f});
  const auto b = floats<__m512>(
      {2.9f, 200.0f, -240.0f, -1.5f, 128.0f, kInfinity, -kInfinity, -kInfinity, kInfinity, 1.0f, -149.0f});
  const auto r = elements_of<float>(_mm512_scalef_ps(a, b));
  EXPECT_EQ(r[0], 6.0f);
  EXPECT_EQ(r[1], 0x1p100f);
  EXPECT_EQ(r[2], 0x1p-140f);
  EXPECT_EQ(r[3], 0.75f);
  EXPECT_EQ(r[4], kInfinity);
  EXPECT_TRUE(std::isnan(r[5]));
  EXPECT_TRUE(std::isnan(r[6]));
  EXPECT_TRUE(r[7] == 0.0f && std::signbit(r[7]));
  EXPECT_EQ(r[8], kInfinity);
  EXPECT_TRUE(std::isnan(r[9]));
  EXPECT_EQ(r[10], 0x1p-149f);
}

TEST(Floats, ApproximationsAreWithinTheirBoundButNotExact) {
  double worst_reciprocal = 0, worst_root = 0;
  for (int i = 1; i < 4000; i++) {
    const float x = static_cast<float>(i) * 0.37f;
    const double reciprocal = elements_of<float>(_mm512_rcp14_ps(_mm512_set1_ps(x)))[0];
    const double root = elements_of<float>(_mm512_rsqrt14_ps(_mm512_set1_ps(x)))[0];
    worst_reciprocal = std::max(worst_reciprocal, std::fabs(reciprocal * x - 1));
    worst_root = std::max(worst_root, std::fabs(root * std::sqrt(double{x}) - 1));
  }
  EXPECT_LT(worst_reciprocal, 0x1p-14);
  EXPECT_LT(worst_root, 0x1p-14);
  EXPECT_GT(worst_reciprocal, 0x1p-16);
  EXPECT_GT(worst_root, 0x1p-16);
  const auto special = elements_of<float>(_mm512_rsqrt14_ps(floats<__m512>({0.0f, kInfinity, -1.0f, 4.0f})));
  EXPECT_EQ(special[0], kInfinity);
  EXPECT_EQ(special[1], 0.0f);
  EXPECT_TRUE(std::isnan(special[2]));
  EXPECT_EQ(special[3], 0.5f);
}

TEST(Floats, InsertExtendAndReduceWorkOnTheRightParts) {
  const __m512 v = _mm512_insertf32x4(_mm512_setzero_ps(), _mm_set1_ps(3.0f), 2);
  const auto r = elements_of<float>(v);
  EXPECT_EQ(r[7], 0.0f);
  EXPECT_EQ(r[8], 3.0f);
  EXPECT_EQ(r[12], 0.0f);
  EXPECT_EQ(elements_of<float>(_mm512_zextps128_ps512(_mm_set1_ps(2.0f)))[4], 0.0f);
  EXPECT_EQ(_mm512_reduce_add_ps(v), 12.0f);
  EXPECT_EQ(
      elements_of<float>(_mm256_mask_add_ps(_mm256_set1_ps(7.0f), 2, _mm256_set1_ps(1.0f), _mm256_set1_ps(2.0f)))[0],
      7.0f);
  EXPECT_EQ(
      elements_of<float>(_mm256_mask_add_ps(_mm256_set1_ps(7.0f), 2, _mm256_set1_ps(1.0f), _mm256_set1_ps(2.0f)))[1],
      3.0f);
}

// --- fp16 ------------------------------------------------------------------------------------------------------------

// Rounds x to fp16 by the definition: to the nearest multiple of a unit in the last place, ties to even.
double to_fp16(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), -14);
  const double unit = std::ldexp(1.0, exponent - 10);
  const double r = std::nearbyint(x / unit) * unit;
  return std::fabs(r) > 65504 ? std::copysign(std::numeric_limits<double>::infinity(), x) : r;
}

double value_of(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

// Expects equal numbers; a NaN equals a NaN.
void expect_fp16(uint16_t got, double want, const char *what) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(value_of(got))) << what;
  } else {
    EXPECT_EQ(value_of(got), want) << what;
  }
}

TEST(Fp16, EachOperationRoundsOnce) {
  for (uint32_t seed = 0; seed < 3000; seed++) {
    const auto a = random_elements<uint16_t, __m512h>(3 * seed), b = random_elements<uint16_t, __m512h>(3 * seed + 1);
    const auto x = from<__m512h>(a), y = from<__m512h>(b);
    const auto sum = elements_of<uint16_t>(_mm512_add_ph(x, y)),
               difference = elements_of<uint16_t>(_mm512_sub_ph(x, y));
    const auto product = elements_of<uint16_t>(_mm512_mul_ph(x, y)),
               quotient = elements_of<uint16_t>(_mm512_div_ph(x, y));
    for (size_t i = 0; i < 32; i++) {
      const double p = value_of(a[i]), q = value_of(b[i]);
      expect_fp16(sum[i], to_fp16(p + q), "sum");
      expect_fp16(difference[i], to_fp16(p - q), "difference");
      expect_fp16(product[i], to_fp16(p * q), "product");
      expect_fp16(quotient[i], to_fp16(p / q), "quotient");
    }
  }
}

// The reference is a * b + c in double, rounded to fp16. If the double sum is inexact, this rounds twice, which could
// give a wrong reference if the double is a tie between two fp16 numbers. So the test then takes the next double in the
// direction of the exact sum, which rounds to fp16 as the exact sum does.
TEST(Fp16, AFusedMultiplyAddRoundsOnce) {
  std::mt19937 random(5);
  for (uint32_t repeat = 0; repeat < 3000; repeat++) {
    std::array<uint16_t, 32> a, b, c;
    for (size_t i = 0; i < 32; i++) {
      a[i] = static_cast<uint16_t>(random()), b[i] = static_cast<uint16_t>(random()),
      c[i] = static_cast<uint16_t>(random());
    }
    const auto got = elements_of<uint16_t>(_mm512_fmadd_ph(from<__m512h>(a), from<__m512h>(b), from<__m512h>(c)));
    for (size_t i = 0; i < 32; i++) {
      const double product = value_of(a[i]) * value_of(b[i]), sum = product + value_of(c[i]);
      if (!std::isfinite(sum)) {
        expect_fp16(got[i], sum, "fma");
        continue;
      }
      const double rest = std::fabs(product) > std::fabs(value_of(c[i])) ? value_of(c[i]) - (sum - product)
                                                                         : product - (sum - value_of(c[i]));
      const double reference = rest == 0 ? sum : std::nextafter(sum, rest > 0 ? HUGE_VAL : -HUGE_VAL);
      expect_fp16(got[i], to_fp16(reference), "fma");
    }
  }
  // 1 + 2^-11 is a tie between 1 and 1 + 2^-10, which rounds to 1; a slightly larger product gives 1 + 2^-10.
  const auto fp16 = [](float x) { return _mm512_castsi512_ph(_mm512_set1_epi16(static_cast<short>(_cvtss_sh(x, 0)))); };
  EXPECT_EQ(value_of(elements_of<uint16_t>(_mm512_fmadd_ph(fp16(0x1.004p-6f), fp16(0x1.004p-6f), fp16(1.0f)))[0]), 1.0);
  EXPECT_EQ(value_of(elements_of<uint16_t>(_mm512_fmadd_ph(fp16(0x1.004p-5f), fp16(0x1p-6f), fp16(1.0f)))[0]),
            1.0 + 0x1p-10);
  EXPECT_EQ(value_of(elements_of<uint16_t>(_mm512_fmadd_ph(fp16(0x1p-5f), fp16(0x1p-6f), fp16(1.0f)))[0]), 1.0);
}

TEST(Fp16, TheMaxWithANanIsTheSecondOperand) {
  const auto a = from<__m512h>(std::array<uint16_t, 32>{0x7E00, 0x3C00, 0x0000, 0xBC00, 0x4000});
  const auto b = from<__m512h>(std::array<uint16_t, 32>{0x4000, 0x7E00, 0x8000, 0x3C00, 0x3C00});
  const auto max = elements_of<uint16_t>(_mm512_max_ph(a, b)), min = elements_of<uint16_t>(_mm512_min_ph(a, b));
  EXPECT_EQ((std::array<uint16_t, 5>{max[0], max[1], max[2], max[3], max[4]}),
            (std::array<uint16_t, 5>{0x4000, 0x7E00, 0x8000, 0x3C00, 0x4000}));
  EXPECT_EQ((std::array<uint16_t, 5>{min[0], min[1], min[2], min[3], min[4]}),
            (std::array<uint16_t, 5>{0x4000, 0x7E00, 0x8000, 0xBC00, 0x3C00}));
}

TEST(Fp16, MasksSelectElements) {
  const auto one = _mm512_castsi512_ph(_mm512_set1_epi16(0x3C00)), two = _mm512_castsi512_ph(_mm512_set1_epi16(0x4000));
  const auto masked = elements_of<uint16_t>(_mm512_mask_mul_ph(one, 0x80000001u, two, two));
  EXPECT_EQ(masked[0], 0x4400);
  EXPECT_EQ(masked[1], 0x3C00);
  EXPECT_EQ(masked[31], 0x4400);
  EXPECT_EQ(elements_of<uint16_t>(_mm512_maskz_add_ph(2, one, one))[0], 0);
  EXPECT_EQ(elements_of<uint16_t>(_mm512_maskz_add_ph(2, one, one))[1], 0x4000);
  EXPECT_EQ(_mm512_cmp_ph_mask(one, two, _CMP_LT_OQ), 0xFFFFFFFFu);
  EXPECT_EQ(_mm512_cmp_ph_mask(_mm512_mask_mul_ph(one, 0x00010000u, two, two), two, _CMP_LT_OQ), 0xFFFEFFFFu);
}

TEST(Fp16, TheScalarMaxKeepsTheOtherElements) {
  const auto a = _mm_castsi128_ph(_mm_set1_epi16(0x3C00)), b = _mm_castsi128_ph(_mm_set1_epi16(0x4000));
  EXPECT_EQ(elements_of<uint16_t>(_mm_max_sh(a, b))[0], 0x4000);
  EXPECT_EQ(elements_of<uint16_t>(_mm_max_sh(a, b))[1], 0x3C00);
  EXPECT_EQ(elements_of<uint16_t>(_mm_min_sh(b, a))[0], 0x3C00);
  EXPECT_EQ(elements_of<uint16_t>(_mm_max_ph(a, b))[7], 0x4000);
  EXPECT_EQ(elements_of<uint16_t>(
                _mm256_min_ph(_mm256_castpd_ph(_mm256_setzero_pd()), _mm256_castpd_ph(_mm256_setzero_pd())))[15],
            0);
}

TEST(Fp16, ConversionAgreesWithTheDefinition) {
  for (uint32_t bits = 0; bits < 65536; bits += 16) {
    std::array<uint16_t, 16> x;
    for (uint32_t i = 0; i < 16; i++) x[i] = static_cast<uint16_t>(bits + i);
    const __m512 wide = _mm512_cvtph_ps(from<__m256i>(x));
    for (size_t i = 0; i < 16; i++) {
      const double want = value_of(x[i]);
      if (!std::isnan(want)) EXPECT_EQ(elements_of<float>(wide)[i], want);
    }
    const auto back = elements_of<uint16_t>(_mm512_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    for (size_t i = 0; i < 16; i++) {
      if (!std::isnan(value_of(x[i]))) EXPECT_EQ(back[i], x[i]);
    }
  }
  EXPECT_EQ(elements_of<uint16_t>(_mm512_cvtps_ph(_mm512_set1_ps(1.0f + 0x1p-11f), _MM_FROUND_TO_NEAREST_INT))[15],
            0x3C00);
  EXPECT_EQ(elements_of<uint16_t>(_mm512_cvtps_ph(_mm512_set1_ps(1.0f + 0x1.004p-11f), _MM_FROUND_TO_NEAREST_INT))[15],
            0x3C01);
}

// --- Tiles (AMX) -----------------------------------------------------------------------------------------------------

edgecore_tile_configuration make_configuration(int m, int k, int n) {
  edgecore_tile_configuration result = {};
  result.palette = 1;
  result.rows[0] = static_cast<uint8_t>(m), result.row_bytes[0] = static_cast<uint16_t>(4 * n);
  result.rows[1] = static_cast<uint8_t>(m), result.row_bytes[1] = static_cast<uint16_t>(4 * k);
  result.rows[2] = static_cast<uint8_t>(k), result.row_bytes[2] = static_cast<uint16_t>(4 * n);
  return result;
}

TEST(Tiles, TheProductOfTilesIsAMatmul) {
  std::mt19937 random(3);
  for (const auto &[m, k, n] : {std::array<int, 3>{16, 16, 16}, {1, 16, 16}, {3, 1, 16}, {15, 7, 16}, {2, 3, 5}}) {
    const auto rows = static_cast<size_t>(m), depth = static_cast<size_t>(k), columns = static_cast<size_t>(n);
    std::vector<int8_t> a(rows * 4 * depth), b(4 * depth * columns);  // b[i][j] at (i / 4, 4 * j + i % 4) of its tile
    for (int8_t &x : a) x = static_cast<int8_t>(random());
    for (int8_t &x : b) x = static_cast<int8_t>(random());
    std::vector<int8_t> packed(depth * 4 * columns);
    for (size_t i = 0; i < 4 * depth; i++) {
      for (size_t j = 0; j < columns; j++) packed[i / 4 * 4 * columns + 4 * j + i % 4] = b[i * columns + j];
    }
    const auto configuration = make_configuration(m, k, n);
    _tile_loadconfig(&configuration);
    _tile_zero(0);
    _tile_loadd(1, a.data(), 4 * depth);
    _tile_loadd(2, packed.data(), 4 * columns);
    _tile_dpbssd(0, 1, 2);
    _tile_dpbssd(0, 1, 2);
    std::vector<int32_t> got(rows * columns + 1, 123456);
    _tile_stored(0, got.data(), 4 * columns);
    _tile_release();
    for (size_t i = 0; i < rows; i++) {
      for (size_t j = 0; j < columns; j++) {
        int32_t want = 0;
        for (size_t l = 0; l < 4 * depth; l++) want += 2 * a[i * 4 * depth + l] * b[l * columns + j];
        EXPECT_EQ(got[i * columns + j], want);
      }
    }
    EXPECT_EQ(got.back(), 123456);
  }
}

TEST(Tiles, ALoadReadsOnlyTheTilesBytes) {
  GuardedPage memory;
  const auto configuration = make_configuration(3, 5, 7);
  _tile_loadconfig(&configuration);
  _tile_loadd(1, memory.last(2 * 100 + 20), 100);
  _tile_loadd(2, memory.last(4 * 28 + 28), 28);
  _tile_release();
}

TEST(TilesDeathTest, InvalidConfigurationsTrap) {
  EXPECT_DEATH(_tile_zero(0), "");
  auto configuration = make_configuration(16, 16, 16);
  configuration.rows[2] = 15;  // the second factor's rows, which differ from the first factor's columns
  EXPECT_DEATH(
      {
        _tile_loadconfig(&configuration);
        _tile_dpbssd(0, 1, 2);
      },
      "");
  configuration.rows[2] = 17;
  EXPECT_DEATH(_tile_loadconfig(&configuration), "");
}

}  // namespace
