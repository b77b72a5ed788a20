// Measures which number of rows per tile of fp32 matrix products is fastest, on processors without known measurements.
// The trial takes a few milliseconds, and its result is stored in the folder of packed weights; without a folder there
// is no trial. Packed weights do not depend on the rows of tiles; nor do results, if the weights are finite.
#ifndef EDGECORE_XNNPACK_TILE_TRIAL_H_
#define EDGECORE_XNNPACK_TILE_TRIAL_H_

#include <string>

#include "graph.h"
#include "tiles.h"
#include "weights.h"

namespace edgecore::xnnpack {

// Returns the tile of the graph's fp32 layers: {rows, 0} from a trial in this process or an earlier one, or {} if there
// is no trial. There is none if XNNPACK's choice is known to be good on this processor, no folder for packed weights is
// set, or the graph has no fp32 layers. Sets `report` to a sentence about the trial; leaves it empty if there is none.
Tile tried_tile(const Graph &graph, Store *store, std::string *report);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_TILE_TRIAL_H_
