// Measures which number of rows of fp32 tiles is fastest, on processors without known measurements. It takes a few
// milliseconds, and its result is stored in the folder of packed weights; without a folder there is no trial. Packed
// weights and, with finite weights, results do not depend on the rows of tiles.
#ifndef EDGECORE_XNNPACK_TILE_TRIAL_H_
#define EDGECORE_XNNPACK_TILE_TRIAL_H_

#include <string>

#include "graph.h"
#include "tiles.h"
#include "weights.h"

namespace edgecore::xnnpack {

// Returns the tile of the graph's fp32 layers: {rows, 0} from a trial in this process or an earlier one, or {} if there
// is nothing to try: XNNPACK's choice is known to be good on this processor, the store has no folder, or the graph has
// no fp32 layers. Sets `report` to a sentence about the trial; empty if there is none.
Tile tried_tile(const Graph &graph, Store *store, std::string *report);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_TILE_TRIAL_H_
