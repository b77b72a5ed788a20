// Tests the pthreadpool functions: with any number of threads, each function visits the same tiles as nested loops, and
// each tile once. With PTHREADPOOL_FLAG_DISABLE_DENORMALS, denormals are flushed to zero inside of the tasks.
#include "threadpool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <vector>

#include "test_host.h"

namespace {

using Tile = std::array<size_t, 8>;  // first indices, then sizes

// The calls of a task by all workers, recorded for comparison.
struct Record {
  std::mutex mutex;
  std::vector<Tile> tiles;
  size_t threads = 1;
  bool bad_worker = false;
  bool denormals_seen = false;

  void add(std::initializer_list<size_t> numbers, size_t worker = 0) {
    Tile tile = {};
    std::copy(numbers.begin(), numbers.end(), tile.begin());
    volatile float tiny = 1e-40f;
    const std::lock_guard<std::mutex> lock(mutex);
    tiles.push_back(tile);
    bad_worker = bad_worker || worker >= threads;
    denormals_seen = denormals_seen || tiny * 1.0f != 0.0f;
  }
};

// Returns the tiles that nested loops over `range` visit; the last tile.size() dims are tiled.
std::vector<Tile> expected_tiles(const std::vector<size_t> &range, const std::vector<size_t> &tile) {
  std::vector<Tile> out = {Tile{}};
  const size_t rank = range.size();
  for (size_t d = 0; d < rank; ++d) {
    const bool tiled = d >= rank - tile.size();
    const size_t t = tiled ? d - (rank - tile.size()) : 0;
    const size_t width = tiled ? tile[t] : 1;
    std::vector<Tile> next;
    for (const Tile &prefix : out) {
      for (size_t i = 0; i < range[d]; i += width) {
        Tile at = prefix;
        at[d] = i;
        if (tiled) at[rank + t] = std::min(width, range[d] - i);
        next.push_back(at);
      }
    }
    out = next;
  }
  return out;
}

class ThreadPool : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    if (GetParam() != 0) pool_ = {edgecore::backend::Host(edgecore_test_host(), edgecore_test_scope_new(GetParam()))};
  }
  void TearDown() override {
    if (pool_.host.scope() != nullptr) edgecore_test_scope_delete(pool_.host.scope());
  }

  pthreadpool_t pool() { return GetParam() == 0 ? nullptr : &pool_; }

  template <typename Call>
  void check(const std::vector<size_t> &range, const std::vector<size_t> &tile, Call call) {
    for (uint32_t flags : {0u, static_cast<uint32_t>(PTHREADPOOL_FLAG_DISABLE_DENORMALS)}) {
      Record record;
      record.threads = pthreadpool_get_threads_count(pool());
      call(&record, flags);
      std::sort(record.tiles.begin(), record.tiles.end());
      std::vector<Tile> expected = expected_tiles(range, tile);
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(record.tiles, expected);
      EXPECT_FALSE(record.bad_worker);
      if (!expected.empty()) {
        EXPECT_EQ(record.denormals_seen, flags == 0);
      }
    }
  }

  pthreadpool pool_ = {edgecore::backend::Host(nullptr, nullptr)};
};

Record &record_of(void *arg) { return *static_cast<Record *>(arg); }

using S = size_t;
using U = uint32_t;

TEST_P(ThreadPool, Count) { EXPECT_EQ(pthreadpool_get_threads_count(pool()), GetParam() == 0 ? 1 : GetParam()); }

TEST_P(ThreadPool, OneDim) {
  for (S n : {0u, 1u, 2u, 7u, 100u}) {
    check({n}, {}, [&](Record *r, U flags) {
      pthreadpool_parallelize_1d(
          pool(), [](void *a, S i) { record_of(a).add({i}); }, r, n, flags);
    });
    check({n}, {}, [&](Record *r, U flags) {
      pthreadpool_parallelize_1d_with_thread(
          pool(), [](void *a, S t, S i) { record_of(a).add({i}, t); }, r, n, flags);
    });
    for (S tile : {1u, 3u, 200u}) {
      check({n}, {tile}, [&](Record *r, U flags) {
        pthreadpool_parallelize_1d_tile_1d(
            pool(),
            [](void *a, S i, S w) {
              record_of(a).add({i, w});
            },
            r, n, tile, flags);
      });
    }
  }
}

TEST_P(ThreadPool, TwoDims) {
  const S x = 5, y = 11;
  check({x, y}, {}, [&](Record *r, U f) {
    pthreadpool_parallelize_2d(
        pool(),
        [](void *a, S i, S j) {
          record_of(a).add({i, j});
        },
        r, x, y, f);
  });
  check({x, y}, {}, [&](Record *r, U f) {
    pthreadpool_parallelize_2d_with_thread(
        pool(),
        [](void *a, S t, S i, S j) {
          record_of(a).add({i, j}, t);
        },
        r, x, y, f);
  });
  check({x, y}, {4}, [&](Record *r, U f) {
    pthreadpool_parallelize_2d_tile_1d(
        pool(),
        [](void *a, S i, S j, S w) {
          record_of(a).add({i, j, w});
        },
        r, x, y, 4, f);
  });
  check({x, y}, {4}, [&](Record *r, U f) {
    pthreadpool_parallelize_2d_tile_1d_with_uarch(
        pool(),
        [](void *a, U, S i, S j, S w) {
          record_of(a).add({i, j, w});
        },
        r, 0, 0, x, y, 4, f);
  });
  check({x, y}, {2, 4}, [&](Record *r, U f) {
    pthreadpool_parallelize_2d_tile_2d(
        pool(),
        [](void *a, S i, S j, S v, S w) {
          record_of(a).add({i, j, v, w});
        },
        r, x, y, 2, 4, f);
  });
  check({x, y}, {2, 4}, [&](Record *r, U f) {
    pthreadpool_parallelize_2d_tile_2d_with_uarch(
        pool(),
        [](void *a, U, S i, S j, S v, S w) {
          record_of(a).add({i, j, v, w});
        },
        r, 0, 0, x, y, 2, 4, f);
  });
}

TEST_P(ThreadPool, ThreeDims) {
  const S x = 3, y = 4, z = 9;
  check({x, y, z}, {}, [&](Record *r, U f) {
    pthreadpool_parallelize_3d(
        pool(),
        [](void *a, S i, S j, S k) {
          record_of(a).add({i, j, k});
        },
        r, x, y, z, f);
  });
  check({x, y, z}, {2}, [&](Record *r, U f) {
    pthreadpool_parallelize_3d_tile_1d(
        pool(),
        [](void *a, S i, S j, S k, S w) {
          record_of(a).add({i, j, k, w});
        },
        r, x, y, z, 2, f);
  });
  check({x, y, z}, {2}, [&](Record *r, U f) {
    pthreadpool_parallelize_3d_tile_1d_with_thread(
        pool(),
        [](void *a, S t, S i, S j, S k, S w) {
          record_of(a).add({i, j, k, w}, t);
        },
        r, x, y, z, 2, f);
  });
  check({x, y, z}, {2}, [&](Record *r, U f) {
    pthreadpool_parallelize_3d_tile_1d_with_uarch(
        pool(),
        [](void *a, U, S i, S j, S k, S w) {
          record_of(a).add({i, j, k, w});
        },
        r, 0, 0, x, y, z, 2, f);
  });
  check({x, y, z}, {2}, [&](Record *r, U f) {
    pthreadpool_parallelize_3d_tile_1d_with_uarch_with_thread(
        pool(),
        [](void *a, U, S t, S i, S j, S k, S w) {
          record_of(a).add({i, j, k, w}, t);
        },
        r, 0, 0, x, y, z, 2, f);
  });
  check({x, y, z}, {3, 4}, [&](Record *r, U f) {
    pthreadpool_parallelize_3d_tile_2d(
        pool(),
        [](void *a, S i, S j, S k, S v, S w) {
          record_of(a).add({i, j, k, v, w});
        },
        r, x, y, z, 3, 4, f);
  });
  check({x, y, z}, {3, 4}, [&](Record *r, U f) {
    pthreadpool_parallelize_3d_tile_2d_with_uarch(
        pool(),
        [](void *a, U, S i, S j, S k, S v, S w) {
          record_of(a).add({i, j, k, v, w});
        },
        r, 0, 0, x, y, z, 3, 4, f);
  });
}

TEST_P(ThreadPool, MoreDims) {
  check({2, 3, 2, 7}, {}, [&](Record *r, U f) {
    pthreadpool_parallelize_4d(
        pool(),
        [](void *a, S i, S j, S k, S l) {
          record_of(a).add({i, j, k, l});
        },
        r, 2, 3, 2, 7, f);
  });
  check({2, 3, 5, 7}, {2, 3}, [&](Record *r, U f) {
    pthreadpool_parallelize_4d_tile_2d(
        pool(),
        [](void *a, S i, S j, S k, S l, S v, S w) {
          record_of(a).add({i, j, k, l, v, w});
        },
        r, 2, 3, 5, 7, 2, 3, f);
  });
  check({2, 3, 5, 7}, {2, 3}, [&](Record *r, U f) {
    pthreadpool_parallelize_4d_tile_2d_with_uarch(
        pool(),
        [](void *a, U, S i, S j, S k, S l, S v, S w) {
          record_of(a).add({i, j, k, l, v, w});
        },
        r, 0, 0, 2, 3, 5, 7, 2, 3, f);
  });
  check({2, 3, 2, 2, 3}, {}, [&](Record *r, U f) {
    pthreadpool_parallelize_5d(
        pool(),
        [](void *a, S i, S j, S k, S l, S m) {
          record_of(a).add({i, j, k, l, m});
        },
        r, 2, 3, 2, 2, 3, f);
  });
  check({2, 3, 2, 5, 3}, {2, 2}, [&](Record *r, U f) {
    pthreadpool_parallelize_5d_tile_2d(
        pool(),
        [](void *a, S i, S j, S k, S l, S m, S v, S w) {
          record_of(a).add({i, j, k, l, m, v, w});
        },
        r, 2, 3, 2, 5, 3, 2, 2, f);
  });
  check({2, 1, 2, 3, 5, 3}, {2, 2}, [&](Record *r, U f) {
    pthreadpool_parallelize_6d_tile_2d(
        pool(),
        [](void *a, S i, S j, S k, S l, S m, S n, S v, S w) {
          record_of(a).add({i, j, k, l, m, n, v, w});
        },
        r, 2, 1, 2, 3, 5, 3, 2, 2, f);
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPool, testing::Values(0u, 1u, 2u, 5u));

}  // namespace
