// Writes rows at positions that another tensor contains: target[:, positions[i], :] = rows[:, i, :]. One thread per
// element of the rows. Negative positions count from the end; positions out of range are not written.
#version 450
#include "types.glsl"

layout(push_constant) uniform Params {
  uint size;       // number of positions in the target
  uint positions;  // number of positions to write
  uint inner;      // number of elements of a row to write
  uint count;      // number of elements of all rows to write
};
layout(set = 0, binding = 0) writeonly buffer Target { T target[]; };
layout(set = 0, binding = 1) readonly buffer Rows { T rows[]; };
layout(set = 0, binding = 2) readonly buffer Positions { int position_of[]; };

void main() {
  const uint id = flat_id();
  if (id >= count) return;
  const uint column = id % inner;
  const uint row = id / inner % positions;
  const uint outer = id / inner / positions;
  int position = position_of[row];
  if (position < 0) position += int(size);
  if (position < 0 || position >= int(size)) return;
  target[(outer * size + uint(position)) * inner + column] = rows[id];
}
